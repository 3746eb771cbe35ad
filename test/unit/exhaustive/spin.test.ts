import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

const SPECIFICATION = resolve('docs/spec/loans.pml')
const TIMEOUT_MS = 120_000

const isInstalled = (tool: string, flag: string): boolean =>
  spawnSync(tool, [flag], { stdio: 'ignore' }).status === 0
const canRun = isInstalled('spin', '-V') && isInstalled('cc', '--version')

const folder = canRun ? mkdtempSync(join(tmpdir(), 'quotaplane-spin-')) : null
afterAll(() => {
  if (folder !== null) rmSync(folder, { recursive: true })
})

/** Generates, compiles and runs the verifier; gives back how many errors it found and states it saw. */
function verify(...defines: readonly string[]): {
  readonly errors: number
  readonly states: number
} {
  const cwd = folder ?? ''
  execFileSync('spin', [...defines, '-a', SPECIFICATION], { cwd })
  execFileSync('cc', ['-O1', '-w', '-DSAFETY', '-DCOLLAPSE', '-o', 'pan', 'pan.c'], { cwd })
  const output = execFileSync(join(cwd, 'pan'), ['-m200000'], { cwd, encoding: 'utf8' })
  return {
    errors: Number(/errors: (\d+)/.exec(output)?.[1]),
    states: Number(/(\d+) states, stored/.exec(output)?.[1]),
  }
}

const what = canRun ? 'the specification in docs/spec' : 'docs/spec: spin or cc is missing, not run'

describe(what, () => {
  it.skipIf(!canRun)(
    'holds in every state that spin reaches',
    () => {
      const { errors, states } = verify()
      expect(errors).toBe(0)
      expect(states).toBeGreaterThan(100_000)
    },
    TIMEOUT_MS,
  )

  it.skipIf(!canRun)(
    'is violated with a seeded bug, and by one unit less than the pool',
    () => {
      expect(verify('-DBUG_DATED_AT_RECEIPT').errors).toBe(1)
      expect(verify('-DBUG_UNHEEDING').errors).toBe(1)
      expect(verify('-DTIGHT').errors).toBe(1)
    },
    TIMEOUT_MS,
  )
})
