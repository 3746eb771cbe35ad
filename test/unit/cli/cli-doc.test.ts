import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from './fake-io.ts'

describe('docs/cli.md', () => {
  it('lists every verb of the program, and no other', async () => {
    const io = ioWith({})
    await runProgram(['--help'], io)
    const [, commands = ''] = /Commands:\n([\s\S]*?)\n\n/.exec(io.written.out) ?? []
    const verbs = [...commands.matchAll(/^ {2}([a-z]+)/gm)].map(([, verb]) => verb)
    const rows = readFileSync('docs/cli.md', 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('| `'))
    const told = rows.flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([a-z]+)`/g)])
    expect(told.map(([, verb]) => verb).sort()).toEqual(verbs.sort())
    expect(verbs.length).toBeGreaterThan(20)
  })
})
