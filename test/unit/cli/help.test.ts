import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ENVIRONMENT } from '../../../services/cli/help.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from './fake-io.ts'

async function run(...args: readonly string[]) {
  const io = ioWith({})
  const exitCode = await runProgram(args, io)
  return { exitCode, ...io.written }
}

/** Every command, by the words that lead to it, out of what the program says of itself. */
async function commandsBelow(words: readonly string[]): Promise<readonly (readonly string[])[]> {
  const { out } = await run(...words, '--help')
  const [, listed = ''] = /Commands:\n([\s\S]*?)\n\n/.exec(out) ?? []
  // Each group explains its commands too, by a command that has no help of its own.
  const names = [...listed.matchAll(/^ {2}([a-z]+)/gm)]
    .map(([, name = '']) => name)
    .filter((name) => words.length === 0 || name !== 'help')
  const below = await Promise.all(names.map((name) => commandsBelow([...words, name])))
  return [...names.map((name) => [...words, name]), ...below.flat()]
}

describe('help', () => {
  it('of every command ends with its exit codes and where there is more', async () => {
    const commands = await commandsBelow([])
    expect(commands.length).toBeGreaterThan(60)
    for (const words of commands) {
      const { exitCode, out } = await run(...words, '--help')
      const told = words.join(' ')
      expect(exitCode, told).toBe(0)
      expect(out.match(/Exit codes: 0 /g), told).toHaveLength(1)
      expect(out, told).toContain('More: quotaplane help topics.')
      if (out.includes('--admin-url') && out.includes('--context')) {
        expect(out, told).toContain('QUOTAPLANE_TOKEN, QUOTAPLANE_CONTEXT.')
      }
    }
  })

  it('of every command that changes something offers to plan it and to say why', async () => {
    const reading =
      /^(list|get|show|diff|status|tail|export|lags|top|history|create-nats|init|set|use|nats|topics)$/
    const writes = (await commandsBelow([])).filter((words) => {
      const [first = '', last = ''] = [words[0], words.at(-1)]
      const isLocal = ['context', 'keys', 'admin', 'up', 'demo', 'help', 'completion'].includes(
        first,
      )
      return !isLocal && (first === 'override' ? last !== 'list' : !reading.test(last))
    })
    const offered: string[] = []
    for (const words of writes) {
      const { out } = await run(...words, '--help')
      if (/Commands:\n/.test(out)) continue
      const isPlanned = out.includes('--dry-run')
      expect(isPlanned, words.join(' ')).toBe(out.includes('--reason <why>'))
      if (isPlanned) offered.push(words.join(' '))
    }
    expect(offered.sort()).toEqual(
      [
        'allow',
        'apply',
        'block',
        'domain apply',
        'domain delete',
        'emergency end',
        'freeze',
        'import envoy',
        'import limitador',
        'limit fix',
        'limit multiply',
        'override remove',
        'override set',
        'pin',
        'policy apply',
        'policy delete',
        'region drain',
        'region register',
        'region remove',
        'region resume',
        'reset',
        'rollback',
        'token create',
        'token revoke',
      ].sort(),
    )
  })

  it('explains topics and commands, and says where both are listed', async () => {
    const topics = await run('help', 'topics')
    const names = [...topics.out.matchAll(/quotaplane help ([a-z-]+)/g)].map(
      ([, name = '']) => name,
    )
    expect(names).toEqual(['contexts', 'environment', 'exit-codes', 'output', 'files'])
    for (const name of names) {
      expect(await run('help', name)).toMatchObject({
        exitCode: 0,
        out: expect.stringContaining(`${name}: `),
      })
    }
    const { out } = await run('help', 'policy', 'apply')
    expect(out).toBe((await run('policy', 'apply', '--help')).out)
    expect((await run('help')).out).toBe((await run('--help')).out)
    const unknown = await run('help', 'policy', 'fly')
    expect(unknown).toMatchObject({ exitCode: 2, out: '' })
    expect(unknown.err).toContain('quotaplane help topics')
  })

  it('and docs/cli.md name the same variables', () => {
    const page = readFileSync('docs/cli.md', 'utf8')
    for (const name of Object.keys(ENVIRONMENT)) expect(page, name).toContain(`\`${name}\``)
  })
})
