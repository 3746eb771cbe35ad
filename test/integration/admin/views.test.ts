import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { counterId } from '../../../shared/core/counter-id.ts'
import { aRecord, aRow } from './a-record.ts'
import { type Admin, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
let limitId: number

beforeEach(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  const created = await admin.create()
  limitId = created.body.limits[0].id
  await admin.follower.stepOnce()
})
afterEach(async () => await admin.close())

const keyId = (name: string, usageEpoch = 0) => counterId({ group: 0, limitId, usageEpoch, name })
const shares = async (query = '') => (await admin.call('GET', `/v1/shares${query}`)).body
const usage = async () => (await admin.call('GET', '/v1/usage')).body.limits[0]
const second = () => Math.floor(admin.clock.nowMs / 1_000)

function reportUsage(
  from: string,
  rows: readonly [window: number, admitted: number][],
  epoch = 0,
): void {
  const counts = rows.map(([window, admitted]) => ({
    limitId,
    usageEpoch: epoch,
    window,
    admitted,
    denied: 1,
    returned: 2,
  }))
  admin.follower.hear(aRecord({ from, usage: counts }))
}

describe('shares', () => {
  it('show the base of each limit before any region spoke', async () => {
    const view = await shares()
    expect(view.regions).toEqual([
      { region: 'eu-west-1', asOf: null, ageMs: null, isRecovering: false },
      { region: 'us-east-1', asOf: null, ageMs: null, isRecovering: false },
    ])
    expect(view.limits).toMatchObject([
      {
        domain: 'api',
        policy: 'per-tenant',
        limit: 'per-second',
        capacity: 10_000,
        base: { 'us-east-1': 600_000, 'eu-west-1': 400_000 },
        keys: [],
      },
    ])
  })

  it('show per hot key and region the share, its base, loans both ways, demand, and their age', async () => {
    const pairs = (lend: number, dead: 0 | 1) => ({
      lend: [lend, 1] as const,
      borrow: [1, 5, dead] as const,
    })
    admin.follower.hear(
      aRecord({
        from: 'us-east-1',
        pairs: { 'eu-west-1': pairs(5, 1) },
        rows: [
          aRow(keyId('tenant=acme'), {
            share: 400_000,
            lent: { 'eu-west-1': [1, 250_000, 50_000] },
          }),
        ],
      }),
    )
    admin.follower.hear(
      aRecord({
        from: 'eu-west-1',
        pairs: { 'us-east-1': pairs(9, 0) },
        rows: [
          aRow(keyId('tenant=acme'), {
            share: 600_000,
            hungry: true,
            gaveBack: { 'us-east-1': [1, 50_000] },
          }),
        ],
      }),
    )
    admin.clock.nowMs += 700
    const [key] = (await shares()).limits[0].keys
    expect(key.key).toBe('tenant=acme')
    expect(key.regions).toEqual([
      {
        region: 'eu-west-1',
        share: { units: 600_000, tokens: 6_000 },
        base: { units: 400_000, tokens: 4_000 },
        lent: 0,
        borrowed: 200_000,
        demandPerSecond: 5_000,
        isHungry: true,
        admitted: 10,
        denied: 0,
        returned: 0,
        ageMs: 700,
      },
      expect.objectContaining({
        region: 'us-east-1',
        share: { units: 400_000, tokens: 4_000 },
        lent: 200_000,
        borrowed: 0,
      }),
    ])
  })

  it('count nothing as borrowed in a term that has lapsed', async () => {
    const lent = { 'eu-west-1': [1, 250_000, 0] as const }
    const lender = { 'eu-west-1': { lend: [5, 1] as const, borrow: [0, 0, 0] as const } }
    const rows = [aRow(keyId('tenant=acme'), { lent })]
    admin.follower.hear(aRecord({ pairs: lender, rows }))
    const borrower = { 'us-east-1': { lend: [0, 0] as const, borrow: [1, 5, 1] as const } }
    admin.follower.hear(
      aRecord({ from: 'eu-west-1', pairs: borrower, rows: [aRow(keyId('tenant=acme'))] }),
    )
    expect((await shares()).limits[0].keys[0].regions[0]).toMatchObject({ borrowed: 0 })
  })

  it('are of the newest record of a region, however records arrive', async () => {
    const older = aRecord({ rows: [aRow(keyId('tenant=acme'), { share: 1 })] })
    const newer = aRecord({ rows: [aRow(keyId('tenant=acme'), { share: 2 })] })
    admin.follower.hear(newer)
    admin.follower.hear(older)
    const restarted = { ...older, mark: { incarnation: 2, fence: 0, seq: 0 } }
    expect((await shares()).limits[0].keys[0].regions[0].share.units).toBe(2)
    admin.follower.hear(restarted)
    expect((await shares()).limits[0].keys[0].regions[0].share.units).toBe(1)
  })

  it('show a bounded number of keys, those with most demand first', async () => {
    const rows = Array.from({ length: 30 }, (_, i) =>
      aRow(keyId(`tenant=${i}`), { demand: i * 1_000 }),
    )
    admin.follower.hear(aRecord({ rows }))
    const [limit] = (await shares('?keys=2')).limits
    expect(limit.keys.map((each: { key: string }) => each.key)).toEqual(['tenant=29', 'tenant=28'])
    expect(limit.keysLeftOut).toBe(28)
  })

  it('leave out rows of limits, resets and shapes that admin does not know', async () => {
    const ids = [keyId('tenant=acme', 7), '{04s}999999.0:tenant=acme', 'nonsense']
    admin.follower.hear(aRecord({ rows: ids.map((id) => aRow(id)) }))
    expect((await shares()).limits[0].keys).toEqual([])
  })

  it('of a region that is not registered are not heard', async () => {
    expect(admin.follower.hear(aRecord({ from: 'mars', rows: [aRow(keyId('tenant=acme'))] }))).toBe(
      false,
    )
    expect(admin.live.heard('mars')).toBeNull()
    await admin.register('mars')
    admin.follower.hear(aRecord({ from: 'mars', rows: [aRow(keyId('tenant=acme'))] }))
    expect((await shares()).limits[0].keys).toHaveLength(1)
  })

  it('come in pages of policies, and only of those asked for', async () => {
    await admin.create({ name: 'second', match: [{ key: 'second' }] })
    await admin.follower.stepOnce()
    const first = await shares('?limit=1')
    expect(first.limits.map((limit: { policy: string }) => limit.policy)).toEqual(['per-tenant'])
    const rest = await shares(`?limit=1&cursor=${first.next}`)
    expect(rest.limits.map((limit: { policy: string }) => limit.policy)).toEqual(['second'])
    expect(rest.next).toBeNull()
    expect((await shares('?policy=second')).limits).toHaveLength(1)
    expect((await shares('?domain=none')).limits).toEqual([])
  })
})

describe('usage', () => {
  it('sums what regions admitted in the same window against the capacity', async () => {
    reportUsage('us-east-1', [[second(), 600]])
    reportUsage('eu-west-1', [
      [second(), 300],
      [second() - 1, 5],
    ])
    const { windows, usageWindowMs } = await usage()
    expect(usageWindowMs).toBe(1_000)
    expect(windows).toHaveLength(3)
    expect(windows[0]).toMatchObject({
      index: second(),
      startsAt: new Date(second() * 1_000).toISOString(),
      isComplete: false,
      regions: [
        { region: 'eu-west-1', admitted: 300 },
        { region: 'us-east-1', admitted: 600 },
      ],
      total: { admitted: 900, denied: 2, returned: 4, used: 896, ofCapacity: 0.0896 },
    })
    expect(windows[1].total.admitted).toBe(5)
  })

  it('of repeated, late and reordered records is the same', async () => {
    const now = second()
    reportUsage('us-east-1', [[now, 50]])
    reportUsage('us-east-1', [[now, 80]])
    reportUsage('us-east-1', [[now, 60]])
    expect((await usage()).windows[0].total.admitted).toBe(80)
  })

  it('of a late record is charged to its own window only (B146)', async () => {
    const now = second()
    admin.clock.nowMs += 1_000
    reportUsage('eu-west-1', [[now, 400]])
    const { windows } = await usage()
    expect(windows[0]).toMatchObject({ index: now + 1, total: { admitted: 0 } })
    expect(windows[1]).toMatchObject({ index: now, total: { admitted: 400 } })
  })

  it('falls to nothing on a reset and does not come back with records of before (B145)', async () => {
    const now = second()
    reportUsage('us-east-1', [[now, 80]])
    await admin.call('POST', `${POLICY}/reset`)
    await admin.follower.stepOnce()
    expect((await usage()).windows[0].total.admitted).toBe(0)
    reportUsage('us-east-1', [[now, 81]])
    expect((await usage()).windows[0].total.admitted).toBe(0)
    reportUsage('us-east-1', [[now, 3]], 1)
    expect((await usage()).windows[0].total.admitted).toBe(3)
  })

  it('of a window is complete once every region spoke after its end', async () => {
    reportUsage('us-east-1', [[second(), 1]])
    admin.clock.nowMs += 1_100
    reportUsage('us-east-1', [])
    expect((await usage()).windows[1].isComplete).toBe(false)
    reportUsage('eu-west-1', [])
    expect((await usage()).windows[1].isComplete).toBe(true)
  })
})

describe('health', () => {
  it('of a region tells what it applied and how long it has been silent (B124)', async () => {
    const read = async () => (await admin.call('GET', '/v1/regions/us-east-1')).body.health
    expect(await read()).toMatchObject({ isReporting: false, ageMs: null, appliedRevision: null })
    admin.follower.hear(aRecord({ policyRevision: 3, recovering: true }))
    admin.clock.nowMs += 1_000
    expect(await read()).toEqual({
      isReporting: true,
      ageMs: 1_000,
      appliedRevision: 3,
      isRecovering: true,
      incarnation: 1,
    })
    admin.clock.nowMs += 3_000
    expect(await read()).toMatchObject({ isReporting: false, ageMs: 4_000 })
  })

  it('of a policy is applied everywhere only once every region says so (B124)', async () => {
    const status = async () => (await admin.call('GET', `${POLICY}/status`)).body
    const { revision } = await status()
    admin.follower.hear(aRecord({ policyRevision: revision }))
    admin.follower.hear(aRecord({ from: 'eu-west-1', policyRevision: revision - 1 }))
    expect(await status()).toMatchObject({
      isAppliedEverywhere: false,
      regions: [
        { region: 'eu-west-1', isApplied: false, appliedRevision: revision - 1 },
        { region: 'us-east-1', isApplied: true },
      ],
    })
    admin.follower.hear(aRecord({ from: 'eu-west-1', policyRevision: revision }))
    expect(await status()).toMatchObject({ isAppliedEverywhere: true })
  })

  it('is in the metrics by region', async () => {
    admin.follower.hear(aRecord({ policyRevision: 3 }))
    admin.clock.nowMs += 2_000
    const { body } = await admin.app.inject({ method: 'GET', url: '/metrics' })
    expect(body).toMatch(/quotaplane_region_record_age_seconds\{[^}]*peer="us-east-1"[^}]*\} 2/)
    expect(body).toMatch(/quotaplane_region_policy_revision\{[^}]*peer="us-east-1"[^}]*\} 3/)
    expect(body).not.toContain('peer="eu-west-1"')
  })
})

describe('a rollout', () => {
  const report = (from: string, revision: number, change: object = {}) =>
    admin.rollouts.hear(
      {
        from,
        revision,
        sinceMs: admin.clock.nowMs,
        heard: revision,
        refused: null,
        waitsFor: null,
        enforcers: [{ id: 'e', name: 'host:8080', revision, sinceMs: 1_000, refused: null }],
        unlisted: 0,
        ...change,
      },
      admin.cache.members,
      admin.clock.nowMs,
    )
  const rollout = async (revision: number | string) =>
    await admin.call('GET', `/v1/rollouts/${revision}`)

  it('says of the newest revision, and of any, where it is applied', async () => {
    const { revision } = (await admin.call('GET', POLICY)).body
    for (const region of admin.cache.members) report(region, revision)
    expect((await rollout('latest')).body).toMatchObject({ revision, isComplete: true })
    const changed = await admin.call('POST', `${POLICY}/reset`, {})
    expect((await rollout('latest')).body).toMatchObject({
      revision: changed.body.revision,
      isComplete: false,
    })
    expect((await rollout(revision)).body.isComplete).toBe(true)
  })

  it('B124: a policy whose version an enforcer refused is not applied everywhere', async () => {
    const { revision } = (await admin.call('GET', POLICY)).body
    for (const from of admin.cache.members) {
      admin.follower.hear(aRecord({ from, policyRevision: revision }))
      report(from, revision)
    }
    const status = async () => (await admin.call('GET', `${POLICY}/status`)).body
    expect((await status()).isAppliedEverywhere).toBe(true)
    const refused = { revision, reason: 'of format 2' }
    const enforcer = { id: 'e', name: 'host:8080', revision: revision - 1, sinceMs: 1, refused }
    report('us-east-1', revision, { enforcers: [enforcer] })
    expect(await status()).toMatchObject({
      isAppliedEverywhere: false,
      regions: [
        { region: 'eu-west-1', isApplied: true, reason: null },
        { region: 'us-east-1', isApplied: false, reason: expect.stringContaining('enforcer') },
      ],
    })
    expect((await rollout(revision)).body.regions[1]).toMatchObject({
      state: 'refused',
      enforcers: [{ reason: 'of format 2' }],
    })
  })

  it('refuses what is no revision, and one that is still to come', async () => {
    expect((await rollout('soon')).status).toBe(400)
    expect((await rollout(0)).status).toBe(400)
    const { status, body } = await rollout(1_000_000)
    expect([status, body.code]).toEqual([404, 'QUOTA_REVISION_NOT_FOUND'])
  })
})
