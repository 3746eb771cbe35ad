import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from './fake-io.ts'

async function scriptFor(shell: string): Promise<string> {
  const io = ioWith({})
  expect(await runProgram(['completion', shell], io)).toBe(0)
  return io.written.out
}

/** What bash offers for the last word of a line. */
async function offered(...words: readonly string[]): Promise<readonly string[]> {
  const list = words.map((word) => `'${word}'`).join(' ')
  const ask = `COMP_WORDS=(quotaplane ${list}); COMP_CWORD=${words.length}; _quotaplane; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout, status } = spawnSync('bash', ['-c', `${await scriptFor('bash')}\n${ask}`])
  expect(status).toBe(0)
  return stdout
    .toString()
    .split('\n')
    .filter((word) => word !== '')
}

describe('completion', () => {
  it('offers commands, then what they take, in bash', async () => {
    expect(await offered('pol')).toEqual(['policy'])
    expect(await offered('policy', '')).toEqual(expect.arrayContaining(['apply', 'get', 'list']))
    expect(await offered('policy', 'apply', '--fi')).toEqual(['--file'])
    expect(await offered('policy', 'apply', '--file', 'x.yaml', '--tok')).toEqual(['--token'])
  })

  it('names every command in every shell', async () => {
    for (const shell of ['zsh', 'fish']) {
      const script = await scriptFor(shell)
      for (const word of ['policy', 'apply', 'context', 'completion', 'token']) {
        expect(script).toContain(word)
      }
    }
  })

  it('refuses a shell that it does not know', async () => {
    const io = ioWith({})
    expect(await runProgram(['completion', 'tcsh'], io)).toBe(2)
    expect(io.written.err).toContain('bash, zsh, fish')
  })
})
