import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { durationMs, port, readEnv, Secret, secret } from '../../../shared/runtime/env.ts'

const schema = z.object({
  REGION: z.string(),
  PORT: port.default(8080),
  WAIT_MS: durationMs.default(100),
  TOKEN: secret,
})

describe('readEnv', () => {
  it('reads settings, applies defaults, and ignores what it does not know', () => {
    const read = readEnv(schema, { REGION: 'eu-west-1', TOKEN: 's3cret', PORT: '0', PATH: '/bin' })
    expect(read).toMatchObject({ REGION: 'eu-west-1', PORT: 0, WAIT_MS: 100 })
    expect(Object.keys(read)).not.toContain('PATH')
    expect(Object.isFrozen(read)).toBe(true)
  })

  it('takes an empty variable for one that is not set', () => {
    expect(readEnv(schema, { REGION: 'r', TOKEN: 't', PORT: '' }).PORT).toBe(8080)
  })

  it('reports every problem at once by variable name', () => {
    const read = () => readEnv(schema, { PORT: '70000', WAIT_MS: '1.5', TOKEN: 't' })
    expect(read).toThrow(/REGION: [\s\S]*PORT: [\s\S]*WAIT_MS: /)
  })

  it('takes a setting from the file that its _FILE variable names, without the last line feed', () => {
    withFile('s3cret\n', (path) => {
      const read = readEnv(schema, { REGION: 'r', TOKEN_FILE: path })
      expect(read.TOKEN.reveal()).toBe('s3cret')
    })
  })

  it('says which file it cannot read, and nothing else of that setting', () => {
    const read = () => readEnv(schema, { REGION: 'r', TOKEN_FILE: '/nowhere/token' })
    expect(read).toThrow(/TOKEN_FILE: cannot read \/nowhere\/token \(ENOENT\)$/)
  })

  it('refuses a setting that is given both ways', () => {
    const read = () => readEnv(schema, { REGION: 'r', TOKEN: 't', TOKEN_FILE: '/nowhere' })
    expect(read).toThrow(/TOKEN_FILE: TOKEN is set too/)
  })

  it('prints no value in a report', () => {
    const read = () => readEnv(schema, { REGION: 'r', TOKEN: 's3cret', PORT: 'hunter2' })
    expect(read).toThrow(/PORT/)
    expect(read).not.toThrow(/hunter2|s3cret/)
  })
})

describe('Secret', () => {
  it('shows its value only when asked', () => {
    const token = new Secret('s3cret')
    const shown = [String(token), JSON.stringify({ token }), inspect(token), inspect({ token })]
    expect(shown.join(' ')).not.toContain('s3cret')
    expect(token.reveal()).toBe('s3cret')
  })
})

function withFile(content: string, use: (path: string) => void): void {
  const dir = mkdtempSync(join(tmpdir(), 'quotaplane-env-'))
  try {
    const path = join(dir, 'value')
    writeFileSync(path, content)
    use(path)
  } finally {
    rmSync(dir, { recursive: true })
  }
}
