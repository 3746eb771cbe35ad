import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { counterId, partName } from '../../../shared/core/counter-id.ts'
import { partGroup } from '../../../shared/core/counter-parts.ts'
import { aRecord, aRow } from './a-record.ts'
import { type Admin, aLimit, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

/** Policies whose keys are counted in several parts. */

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const tiers = { pro: { 'per-second': { capacity: 20_000 } } }
  await admin.create({ limits: [aLimit({ shards: 4 })], tiers })
  await admin.create({
    name: 'small',
    match: [{ key: 'small' }],
    limits: [aLimit({ shards: 4, capacity: 200 })],
  })
  await admin.follower.stepOnce()
})
afterAll(async () => await admin.close())

const policy = async () => (await admin.call('GET', POLICY)).body

/** A row of each part of a key that any region says something of. */
function parts(limitId: number, change: (part: number) => object) {
  return [0, 1, 2].map((part) => {
    const id = { group: partGroup(5, part), limitId, usageEpoch: 0 }
    return aRow(counterId({ ...id, name: partName('tenant=acme', part) }), change(part))
  })
}

describe('a policy with shards', () => {
  it('has one row for each of its keys in every view, the sum of what its parts say', async () => {
    const { id } = (await policy()).limits[0]
    const lent = { 'eu-west-1': [1, 250_000, 50_000] as const }
    const pairs = { lend: [5, 1] as const, borrow: [1, 9, 0] as const }
    const back = { lend: [9, 1] as const, borrow: [1, 5, 0] as const }
    const gaveBack = { 'us-east-1': [1, 50_000] as const }
    for (const admitted of [10, 110]) {
      admin.clock.nowMs += 5_000
      const at = { demand: 1_000_000, admitted, denied: 1 }
      const lender = parts(id, () => ({ ...at, share: 400_000, lent }))
      const borrower = parts(id, (part) => ({
        ...at,
        share: 600_000,
        gaveBack,
        hungry: part === 2,
      }))
      admin.follower.hear(aRecord({ pairs: { 'eu-west-1': pairs }, rows: lender }))
      admin.follower.hear(
        aRecord({ from: 'eu-west-1', pairs: { 'us-east-1': back }, rows: borrower }),
      )
    }
    const { keys } = (await admin.call('GET', '/v1/shares')).body.limits[0]
    // The fourth part, of which nobody speaks, has the base of each region.
    expect(keys).toMatchObject([
      {
        key: 'tenant=acme',
        regions: [
          {
            region: 'eu-west-1',
            share: { units: 550_000, tokens: 5_500 },
            borrowed: 150_000,
            demandPerSecond: 3_000,
            isHungry: true,
            admitted: 330,
            denied: 3,
          },
          { region: 'us-east-1', share: { units: 450_000, tokens: 4_500 }, lent: 150_000 },
        ],
        loans: [{ lender: 'us-east-1', borrower: 'eu-west-1', units: 150_000, tokens: 1_500 }],
      },
    ])
    admin.clock.nowMs += 1_000
    const top = (await admin.call('GET', '/v1/usage/top?by=use')).body.items
    expect(top).toMatchObject([{ key: 'tenant=acme', value: 600, isHungry: true }])
    const explained = await admin.call('POST', '/v1/explain', {
      domain: 'api',
      entries: [{ key: 'tenant', value: 'acme' }],
    })
    expect(explained.body.limits[0].regions).toMatchObject([
      { region: 'eu-west-1', demandPerSecond: 3_000, isHungry: true, share: { units: 550_000 } },
      { region: 'us-east-1', demandPerSecond: 3_000, isHungry: false },
    ])
  })

  it('begins its counters anew where their number changes, and says so before', async () => {
    const before = (await policy()).limits[0].id
    const document = aPolicy({ limits: [aLimit({ shards: 8 })] })
    const planned = await admin.call('PUT', `${POLICY}?dryRun=true`, document, { 'if-match': '*' })
    expect(planned.body.limits).toMatchObject([{ change: 'restarted' }])
    expect(planned.body.warnings).toMatchObject([
      { message: expect.stringContaining('nothing spent') },
    ])
    expect((await policy()).limits[0].id).toBe(before)
  })

  it('refuses fewer tokens than shards, from overrides and from emergency actions, with the fix', async () => {
    const override = await admin.call('PUT', `${POLICY}/overrides/acme`, {
      limits: { 'per-second': { capacity: 7 } },
    })
    expect([override.status, override.body.errors]).toMatchObject([
      400,
      [{ field: 'limits.per-second.capacity', message: expect.stringContaining('4 or 8') }],
    ])
    const begin = (action: object) =>
      admin.call('POST', '/v1/emergency-actions', {
        domain: 'api',
        policy: 'small',
        reason: 'overload',
        ttlSeconds: 60,
        ...action,
      })
    for (const action of [
      { kind: 'fix', capacity: 3 },
      { kind: 'multiply', factor: 0.01 },
    ]) {
      const { status, body } = await begin(action)
      expect([status, body.errors]).toMatchObject([
        400,
        [{ fix: expect.stringContaining('leave at least 4') }],
      ])
    }
    expect((await begin({ kind: 'fix', capacity: 4 })).status).toBe(201)
    expect((await begin({ kind: 'fix', capacity: 0 })).status).toBe(201)
  })
})
