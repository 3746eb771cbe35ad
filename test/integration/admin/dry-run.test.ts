import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { counterId } from '../../../shared/core/counter-id.ts'
import { aRecord, aRow } from './a-record.ts'
import { type Admin, aLimit, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
let limitId: number
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const { body } = await admin.create({ tiers: { pro: { 'per-second': { capacity: 9 } } } })
  limitId = body.limits[0].id
  await admin.follower.stepOnce()
})
afterAll(async () => await admin.close())

const own = (limit: object = {}, changes: object = {}) =>
  aPolicy({
    tiers: { pro: { 'per-second': { capacity: 9 } } },
    limits: [aLimit(limit)],
    ...changes,
  })
const planPut = (document: object) =>
  admin.call('PUT', `${POLICY}?dryRun=true`, document, { 'if-match': '*' })

/** Everything that a change could leave behind. */
async function stored(): Promise<string> {
  const tables = ['plane', 'policies', 'limits', 'base_epochs', 'overrides', 'audit', 'revisions']
  const all = [...tables, 'revision_changes', 'idempotency_keys', 'tokens', 'regions']
  const rows = await Promise.all(
    all.map(async (table) => (await sql`select * from ${sql.table(table)}`.execute(admin.db)).rows),
  )
  return JSON.stringify(rows)
}

describe('a dry run', () => {
  it('of any write changes nothing, tells nobody, and is checked as the write itself', async () => {
    const [before, changes] = [await stored(), admin.changes()]
    const batch = { set: [{ value: 'acme', tier: 'pro' }] }
    const documents = [aPolicy({ name: 'new', match: [{ key: 'new' }] })]
    const token = { name: 'dry', scopes: ['quota:read'] }
    const key = { 'idempotency-key': 'dry' }
    const calls = [
      await planPut(own({ capacity: 20_000 })),
      await admin.call('DELETE', `${POLICY}?dryRun=true`, undefined, { 'if-match': '*' }),
      await admin.call('POST', `${POLICY}/reset?dryRun=true`, undefined, key),
      await admin.call('PUT', `${POLICY}/overrides/acme?dryRun=true`, { deny: true }),
      await admin.call('POST', `${POLICY}/overrides?dryRun=true`, batch),
      await admin.call('POST', '/v1/apply?dryRun=true', { documents }, key),
      await admin.call('PUT', '/v1/regions/ap-south-1?dryRun=true', {}),
      await admin.call('POST', '/v1/regions/us-east-1/drain?dryRun=true'),
      await admin.call('POST', '/v1/tokens?dryRun=true', token),
      await admin.call('POST', '/v1/revisions/1/rollback?dryRun=true', {}),
    ]
    for (const { status, body, etag } of calls) {
      expect(body).toMatchObject({ dryRun: true })
      expect([status, etag]).toEqual([200, undefined])
      expect(JSON.stringify(body)).not.toContain('qp_')
    }
    expect(await stored()).toBe(before)
    expect(admin.changes()).toBe(changes)

    const stale = await admin.call('PUT', `${POLICY}?dryRun=true`, own(), { 'if-match': '"1"' })
    expect(stale.status).toBe(412)
    expect((await planPut(own({ capacity: -1 }))).status).toBe(400)
    const mistyped = await admin.call('PUT', `${POLICY}?dryRun=yes`, own(), { 'if-match': '*' })
    expect(mistyped).toMatchObject({ status: 400, body: { errors: [{ field: 'dryRun' }] } })
    expect(await stored()).toBe(before)
  })

  it('tells what differs, and the part of each region before and after', async () => {
    const { body } = await planPut(
      own({ capacity: 20_000, split: { 'us-east-1': 50, 'eu-west-1': 50 } }),
    )
    expect(body.changes).toMatchObject([
      {
        kind: 'policy',
        id: 'api/per-tenant',
        change: 'changed',
        fields: expect.arrayContaining([
          { field: 'limits[per-second].capacity', before: 10_000, after: 20_000 },
        ]),
      },
    ])
    expect(body.limits).toEqual([
      {
        domain: 'api',
        policy: 'per-tenant',
        limit: 'per-second',
        change: 'changed',
        capacity: { before: 10_000, after: 20_000 },
        regions: [
          {
            region: 'eu-west-1',
            before: { units: 400_000, tokens: 4_000 },
            after: { units: 500_000, tokens: 10_000 },
          },
          {
            region: 'us-east-1',
            before: { units: 600_000, tokens: 6_000 },
            after: { units: 500_000, tokens: 10_000 },
          },
        ],
      },
    ])
    expect(body).toMatchObject({ changesLeftOut: 0, limitsLeftOut: 0, keysOver: [], warnings: [] })
  })

  it('names hot keys that used more than the new limit already', async () => {
    const busy = counterId({ group: 0, limitId, usageEpoch: 0, name: 'tenant=busy' })
    const calm = counterId({ group: 0, limitId, usageEpoch: 0, name: 'tenant=calm' })
    for (const times of [1, 2]) {
      const rows = [aRow(busy, { admitted: 900 * times }), aRow(calm, { admitted: times })]
      admin.follower.hear(aRecord({ rows }))
      if (times === 1) admin.clock.nowMs += 1_000
    }
    const { body } = await planPut(own({ capacity: 500 }))
    expect(body.keysOver).toMatchObject([
      { policy: 'per-tenant', limit: 'per-second', key: 'tenant=busy', used: 900, capacity: 500 },
    ])
    expect((await planPut(own({ capacity: 1_000 }))).body.keysOver).toEqual([])
  })

  it('warns of a split that starves a busy region, with the key that asks most', async () => {
    const row = (name: string, perSecond: number) =>
      aRow(counterId({ group: 0, limitId, usageEpoch: 0, name }), { demand: perSecond * 1_000 })
    admin.follower.hear(aRecord({ rows: [row('tenant=busy', 5_000), row('tenant=calm', 10)] }))
    const { body } = await planPut(own({ split: { 'us-east-1': 10, 'eu-west-1': 90 } }))
    expect(body.warnings).toMatchObject([
      { field: 'api/per-tenant.limits[per-second].split.us-east-1' },
    ])
    expect(body.warnings[0].message).toContain('1000 tokens a second')
    expect(body.warnings[0].message).toContain('tenant=busy for 5000')
    expect(
      (await planPut(own({ split: { 'us-east-1': 55, 'eu-west-1': 45 } }))).body.warnings,
    ).toEqual([])
  })

  it('warns of limits below their regions, of bursts under a token, and of counters that restart', async () => {
    const fields = async (document: object): Promise<string[]> =>
      (await planPut(document)).body.warnings.map(({ field }: { field: string }) => field)
    expect(await fields(own({ capacity: 1 }, { acceptSmallLimits: true }))).toContain(
      'api/per-tenant.limits[0].capacity',
    )
    expect(await fields(own({ burst: 1 }, { acceptSmallLimits: true }))).toContain(
      'api/per-tenant.limits[0].burst',
    )
    const restarted = await planPut(own({ algorithm: 'fixed_window' }))
    expect(restarted.body.limits).toMatchObject([{ change: 'restarted' }])
    expect(restarted.body.warnings).toMatchObject([
      {
        field: 'api/per-tenant.limits[per-second]',
        message: expect.stringContaining('nothing spent'),
      },
    ])
    const reset = await admin.call('POST', `${POLICY}/reset?dryRun=true`)
    expect(reset.body.limits).toMatchObject([{ change: 'restarted' }])
  })
})
