import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { testDatabaseUrl } from '../../support/test-database.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>
let databaseUrl: string

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out.trim(), err: io.written.err }
}

beforeAll(async () => {
  databaseUrl = await testDatabaseUrl()
  env = { DATABASE_URL: databaseUrl }
})
afterAll(() => admin.close())

describe('the tokens of a plane', () => {
  it('begin with one that admin init makes, once, and that has every scope', async () => {
    const first = await run('admin', 'init')
    expect(first).toMatchObject({ exitCode: 0 })
    expect(first.err).toContain('not shown again')
    const again = await run('admin', 'init')
    expect(again).toMatchObject({ exitCode: 1, out: '' })
    expect(again.err).toContain('quotaplane token create')
    admin = await startAdmin({ url: databaseUrl })
    const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
    env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: first.out }
    const { out } = await run('whoami', '--json')
    const everything = { scopes: ['quota:admin'], domains: null }
    expect(JSON.parse(out)).toEqual({ url, actor: 'token:root', ...everything })
  })

  it('are made, used, listed and revoked by name', async () => {
    const made = await run(
      'token',
      'create',
      'ci',
      '--scopes',
      'quota:read',
      '--domains',
      'api,web',
    )
    expect(made.out).toMatch(/^qp_/)
    const root = env
    env = { ...root, QUOTAPLANE_TOKEN: made.out }
    expect((await run('whoami')).out).toContain('token:ci')
    const refused = await run('token', 'list')
    expect(refused.exitCode).toBe(1)
    expect(refused.err).toContain('quota:admin')
    env = root
    expect((await run('token', 'list')).out).toMatch(/^ci .*quota:read +api,web/m)
    expect((await run('token', 'revoke', 'ci')).out).toBe('token ci revoked')
    expect((await run('token', 'revoke', 'ci')).err).toContain('no token ci works')
    env = { ...root, QUOTAPLANE_TOKEN: made.out }
    expect((await run('whoami')).err).toContain('unknown, revoked or expired')
  })

  it('cannot be made without a database to keep them in', async () => {
    env = {}
    expect(await run('admin', 'init')).toMatchObject({ exitCode: 2 })
    const { exitCode, err } = await run(
      'admin',
      'init',
      '--database-url',
      'postgresql://x@127.0.0.1:2/x',
    )
    expect(exitCode).toBe(1)
    expect(err).toContain('Postgres does not answer')
  })
})
