import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'

const run = promisify(execFile)

const USABLE = {
  PATH: process.env['PATH'],
  REGION: 'us-east-1',
  REDIS_URL: 'redis://127.0.0.1:1',
  NATS_URL: 'nats://127.0.0.1:1',
  DATABASE_URL: 'postgresql://127.0.0.1:1/none',
}

describe('a service with a misspelt setting of its own', () => {
  it.each([
    ['enforcer', 'ENFORCER_REQUIRE_TOKENS', 'ENFORCER_REQUIRE_TOKEN'],
    ['sync', 'SYNC_PROT', 'SYNC_PORT'],
    ['admin', 'ADMIN_TLS_CERTS', 'ADMIN_TLS_CERT'],
  ])('ends at its start and says which was meant: %s', async (service, name, meant) => {
    const main = join(PACKAGE_ROOT, 'dist/services', service, 'main.js')
    const env = { ...USABLE, [name]: 'true' }
    await expect(run(process.execPath, [main], { env, timeout: 20_000 })).rejects.toMatchObject({
      code: 1,
      stderr: `the environment is not usable:\n  ${name}: is no setting; did you mean ${meant}?\n`,
    })
  })
})
