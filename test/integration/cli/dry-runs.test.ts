import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>
const why = ['--reason', 'to see']
const anHour = ['--for', '1h', ...why]

async function run(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(args, io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1', 'spare')
  await admin.create()
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
  await run('token', 'create', 'old', '--scopes', 'quota:read')
  await run('override', 'set', 'api/per-tenant', 'acme', '--unlimited')
  await run('domain', 'apply', 'empty', '--description', 'nothing in it')
  await run('block', 'api/per-tenant', 'mallory', ...anHour)
})
afterAll(() => admin.close())

const WRITES: readonly (readonly [readonly string[], string])[] = [
  [['region', 'register', 'new-1', 'new-2'], '+++ region new-2'],
  [['region', 'drain', 'eu-west-1'], 'state: draining'],
  [['region', 'remove', 'spare'], '+++ /dev/null'],
  [['region', 'remove', 'eu-west-1', '--certify', '--by', 'Ada', ...why], 'state: removing'],
  [['token', 'create', 'new', '--scopes', 'quota:read'], '+++ token new'],
  [['token', 'revoke', 'old'], '+isRevoked: true'],
  [['policy', 'delete', 'api/per-tenant'], '--- policy api/per-tenant'],
  [['override', 'set', 'api/per-tenant', 'bravo', '--deny'], '+++ override api/per-tenant bravo'],
  [['override', 'remove', 'api/per-tenant', 'acme'], '--- override api/per-tenant acme'],
  [['domain', 'apply', 'empty', '--labels', 'a=b'], '+++ domain empty'],
  [['domain', 'delete', 'empty'], '--- domain empty'],
  [['rollback', '1'], 'policy api/per-tenant'],
  [['reset', 'api/per-tenant', ...why], 'restarted'],
  [['block', 'api/per-tenant', 'eve', ...anHour], 'eve'],
  [['allow', 'api/per-tenant', 'eve', ...anHour], 'eve'],
  [['limit', 'multiply', 'api/per-tenant', '2', ...anHour], 'factor: 2'],
  [['limit', 'fix', 'api/per-tenant', '500', ...anHour], 'capacity: 500'],
  [['freeze', 'api/per-tenant', ...anHour], 'freeze'],
  [['pin', 'api/per-tenant', '--split', 'us-east-1=90,eu-west-1=10', ...anHour], 'pin'],
  [['emergency', 'end', '1', ...why], 'mallory'],
]

describe('--dry-run', () => {
  it.each(WRITES)('of %j shows what would change, and changes nothing', async (args, shown) => {
    const before = await admin.call('GET', '/v1/audit?limit=1')
    const planned = await run(...args, '--dry-run')
    expect(planned).toMatchObject({ exitCode: 0, err: '' })
    expect(planned.out).toContain(shown)
    expect(planned.out).toContain('Dry run: nothing was changed.')
    const after = await admin.call('GET', '/v1/audit?limit=1')
    expect(after.body.items).toEqual(before.body.items)
    const forPrograms = await run(...args, '--dry-run', '--json')
    for (const line of forPrograms.out.trim().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({ dryRun: true })
    }
  })

  it('of a region that is known says so, whatever is said of it', async () => {
    const described = { description: 'Dublin' }
    await admin.call('PUT', '/v1/regions/eu-west-1', described, { 'if-match': '*' })
    const planned = await run('region', 'register', 'eu-west-1', 'new-3', '--dry-run')
    expect(planned).toMatchObject({ exitCode: 0, err: '' })
    expect(planned.out).toContain('+++ region new-3')
    expect(planned.out).toContain('eu-west-1 is known')
  })

  it('prints no token that would never work', async () => {
    const planned = await run('token', 'create', 'new', '--scopes', 'quota:read', '--dry-run')
    expect(planned.out).not.toMatch(/qp_/)
  })
})

describe('--reason', () => {
  it.each([
    ['region', 'register', 'new-1'],
    ['token', 'create', 'new', '--scopes', 'quota:read'],
    ['token', 'revoke', 'new'],
    ['region', 'remove', 'new-1'],
    ['override', 'set', 'api/per-tenant', 'bravo', '--deny'],
    ['domain', 'apply', 'empty', '--labels', 'a=b'],
    ['emergency', 'end', '1'],
    ['policy', 'delete', 'api/per-tenant'],
  ])('of %s %s is in the audit log', async (...args) => {
    const words = args.filter((word) => typeof word === 'string')
    const reason = `because of ${words.join(' ')} – früh`
    expect(await run(...words, '--reason', reason)).toMatchObject({ exitCode: 0 })
    const { body } = await admin.call('GET', '/v1/audit?limit=1')
    expect(body.items).toMatchObject([{ reason }])
  })
})
