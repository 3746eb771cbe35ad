import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { counterId } from '../../../shared/core/counter-id.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { aRecord, aRow } from '../admin/a-record.ts'
import { type Admin, startAdmin, TOKEN } from '../admin/admin-harness.ts'

let admin: Admin
let env: Record<string, string>
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const policy = (name: string, match: readonly object[], more: object = {}) =>
    admin.create({ name, match, ...more })
  const tiers = { pro: { 'per-second': { capacity: 50_000 } } }
  const { body } = await policy('per-tenant', [{ key: 'tenant' }], { tiers })
  await policy('acme', [{ key: 'tenant', value: 'acme' }])
  await policy('acmes', [{ key: 'tenant', value: 'acme*' }], { replaces: ['per-route'] })
  await policy('per-route', [{ key: 'tenant' }, { key: 'route' }])
  const url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
  env = { QUOTAPLANE_URL: url, QUOTAPLANE_TOKEN: TOKEN }
  await runProgram(['override', 'set', 'api/per-tenant', 'bravo', '--tier', 'pro'], ioWith({ env }))
  await admin.follower.stepOnce()
  const id = counterId({
    group: 0,
    limitId: body.limits[0].id,
    usageEpoch: 0,
    name: 'tenant=bravo',
  })
  admin.follower.hear(
    aRecord({ from: 'eu-west-1', rows: [aRow(id, { share: 700_000, hungry: true })] }),
  )
})
afterAll(() => admin.close())

async function explain(...args: readonly string[]) {
  const io = ioWith({ env })
  const exitCode = await runProgram(['explain', ...args], io)
  return { exitCode, out: io.written.out, err: io.written.err }
}

describe('quotaplane explain', () => {
  it('names the policy that governs, and why each other does not, in the order of trying', async () => {
    const { exitCode, out, err } = await explain('--domain', 'api', '--descriptor', 'tenant=acme')
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' })
    expect(out.split('\n').map((line) => line.trim().replace(/ {2,}/g, ' | '))).toEqual(
      expect.arrayContaining([
        'acme | governs | tenant: this value',
        'acmes | lost | tenant=acme of acme beats tenant=acme*',
        'per-tenant | lost | tenant=acme of acme beats tenant with any value',
        'per-route | no-match | has 2 entries, and the descriptor has 1',
        'tenant=acme is limited by api/acme',
        'us-east-1: 6,000, its base',
      ]),
    )
    expect((await explain('api/acmes', '--descriptor', 'tenant=acmes')).out).toContain(
      'it replaces per-route in checks that meet both',
    )
  })

  it('has the tenant’s override and its numbers, and what each region has of the counter', async () => {
    const args = ['api/per-tenant', '--descriptor', 'tenant=bravo', '-o', 'json']
    const reply = JSON.parse((await explain(...args)).out)
    expect(reply).toMatchObject({
      outcome: 'limited',
      override: { value: 'bravo', kind: 'tier', tier: 'pro' },
      limits: [{ capacity: 50_000, from: 'tier pro', counter: 'tenant=bravo' }],
    })
    expect(reply.limits[0].regions).toMatchObject([
      {
        region: 'eu-west-1',
        isHot: true,
        isHungry: true,
        share: { tokens: 35_000 },
        remaining: null,
      },
      { region: 'us-east-1', isHot: false, share: { tokens: 30_000 } },
    ])
  })

  it('asks enforcers what remains, and says which do not answer', async () => {
    const args = ['--domain', 'api', '--descriptor', 'tenant=acme']
    const { exitCode, err } = await explain(...args, '--enforcer', 'us-east-1=http://127.0.0.1:1')
    expect({ exitCode, err }).toMatchObject({
      exitCode: 0,
      err: expect.stringContaining('us-east-1'),
    })
  })

  it('says that nothing governs, and refuses what it cannot mean', async () => {
    const other = await explain('--domain', 'other', '--descriptor', 'tenant=acme')
    expect(other.out).toContain('tenant=acme is not limited: no policy governs it')
    expect(await explain('--descriptor', 'tenant=acme')).toMatchObject({ exitCode: 2 })
    expect(await explain('--domain', 'api', '--descriptor', 'acme')).toMatchObject({ exitCode: 2 })
  })

  it('needs no more than reading, and only of domains that the token may see', async () => {
    const body = { name: 'reader', scopes: ['quota:read'], domains: ['api'] }
    const { token } = (await admin.call('POST', '/v1/tokens', body)).body
    const as = (domain: string) =>
      admin.call(
        'POST',
        '/v1/explain',
        { domain, entries: [{ key: 'a', value: 'b' }] },
        {
          authorization: `Bearer ${token}`,
        },
      )
    expect(await as('api')).toMatchObject({ status: 200, body: { outcome: 'unmatched' } })
    expect(await as('other')).toMatchObject({ status: 403 })
  })
})
