import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readScripts, SCRIPTS, type ScriptDefinition, textFor } from '../../shared/redis/scripts.ts'

const scripts: readonly (readonly [string, ScriptDefinition])[] = Object.entries(SCRIPTS)

function source(name: string): { readonly header: string; readonly body: string } {
  const text = readFileSync(`lua/${name}.lua`, 'utf8')
  const end = text.indexOf(']]')
  return { header: text.slice(0, end), body: text.slice(end) }
}

/** Numbers of KEYS[n] or ARGV[n] that a text names, `[n...]` as its first. */
function indexes(text: string, table: 'KEYS' | 'ARGV'): number[] {
  const found = [...text.matchAll(new RegExp(`${table}\\[(\\d+)(?:\\.\\.\\.)?\\]`, 'g'))]
  return [...new Set(found.map((match) => Number(match[1])))].sort((a, b) => a - b)
}

describe('every Lua script', () => {
  it('is in the registry, and every entry has its file', () => {
    const files = readdirSync('lua')
      .filter((file) => !file.startsWith('_'))
      .map((file) => file.replace('.lua', ''))
    expect(files.sort()).toEqual(scripts.map(([name]) => name).sort())
  })

  it.each(scripts)(
    '%s: its header names the keys and arguments of the registry',
    (name, { keys, args }) => {
      const { header } = source(name)
      expect(indexes(header, 'KEYS')).toEqual(keys.map((_, index) => index + 1))
      expect(indexes(header, 'ARGV')).toEqual(args.map((_, index) => index + 1))
      for (const [table, names] of [
        ['KEYS', keys],
        ['ARGV', args],
      ] as const) {
        for (const [index, one] of names.entries()) {
          expect(header.includes(`${table}[${index + 1}...]`), one).toBe(one.endsWith('...'))
        }
      }
    },
  )

  it.each(scripts)(
    '%s: uses each of them, by its number or in a loop over all',
    (name, { keys, args }) => {
      const { body } = source(name)
      const fixed = (names: readonly string[]): number[] =>
        names.flatMap((one, index) => (one.endsWith('...') ? [] : [index + 1]))
      const usesAllKeys = /unpack\(KEYS\)/.test(body)
      for (const index of fixed(keys)) {
        expect(usesAllKeys || indexes(body, 'KEYS').includes(index), `KEYS[${index}]`).toBe(true)
      }
      const beyond = [...indexes(body, 'ARGV')].filter((index) => index > args.length)
      expect(beyond).toEqual([])
      for (const index of fixed(args)) expect(indexes(body, 'ARGV')).toContain(index)
    },
  )

  it.each(scripts)('%s: says why it must be atomic', (name) => {
    expect(source(name).header).toMatch(/\nReply: .*\nAtomic because /s)
  })

  it('decides by the clock of Redis in one place only', () => {
    // Raising a fence decides nothing; it reads the clock only to begin above every fence that was lost.
    const files = readdirSync('lua').filter((file) => file !== 'raise-fence.lua')
    const text = files.map((file) => readFileSync(`lua/${file}`, 'utf8')).join('\n')
    expect(text.match(/'TIME'/g)).toHaveLength(1)
  })
})

it('a script that is served carries the server and the fence in its text', () => {
  const { check } = readScripts()
  const one = textFor(check, { replicationId: 'a'.repeat(40), fence: 1 })
  expect(one).toContain(`local SERVER_ID = '${'a'.repeat(40)}'`)
  expect(textFor(check, { replicationId: 'a'.repeat(40), fence: 2 })).not.toBe(one)
  expect(() => textFor(check, { replicationId: "'", fence: 1 })).toThrow()
})
