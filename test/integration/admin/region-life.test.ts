import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LENDER_WAIT_MS } from '../../../shared/core/ledger/constants.ts'
import { readMembership } from '../../../shared/postgres/departures.ts'
import { takeIncarnation } from '../../../shared/postgres/incarnations.ts'
import { aRecord } from './a-record.ts'
import { type Admin, aLimit, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

const US = 'us-east-1'
const EU = 'eu-west-1'
const AP = 'ap-south-1'
const WINDOW_MS = 60_000

let admin: Admin
let bucketId: string
let windowId: string
beforeEach(async () => {
  admin = await startAdmin()
  await admin.register(US, EU, AP)
  const split = { [US]: 50, [EU]: 30, [AP]: 20 }
  const window = { name: 'per-minute', algorithm: 'fixed_window', windowMs: WINDOW_MS, split }
  const created = await admin.create({ limits: [aLimit({ split }), aLimit(window)] })
  const ids = created.body.limits.map((limit: { id: number }) => String(limit.id))
  ;[bucketId, windowId] = ids
  await admin.follower.stepOnce()
})
afterEach(async () => await admin.close())

const act = (region: string, what: 'drain' | 'resume') =>
  admin.call('POST', `/v1/regions/${region}/${what}`)
const read = async (region: string) => (await admin.call('GET', `/v1/regions/${region}`)).body
const basesOf = async (): Promise<Record<string, number>[]> =>
  (await admin.call('GET', POLICY)).body.limits.map((limit: { base: object }) => limit.base)

const CERTIFICATE = { certifiedBy: 'on-call', reason: 'the site burnt down', nothingInUse: true }
const certify = (region: string, body: object = CERTIFICATE) =>
  admin.call('POST', `/v1/regions/${region}/remove`, body)

/** Records in which regions adopt an epoch of both limits, and what follows from them. */
async function adopt(epoch: number, ...regions: string[]): Promise<void> {
  for (const from of regions) {
    const adopted = { [bucketId]: epoch, [windowId]: epoch }
    admin.follower.hear(aRecord({ from, adopted, policyRevision: admin.cache.revision }))
  }
  await admin.follower.stepOnce()
  await admin.follower.stepOnce()
}

async function pass(ms: number): Promise<void> {
  admin.clock.nowMs += ms
  await admin.follower.stepOnce()
  await admin.follower.stepOnce()
}

describe('a region that is drained', () => {
  it('hands its part to the others in their proportions, and is drained once all adopted that', async () => {
    const asked = await act(AP, 'drain')
    expect(asked).toMatchObject({
      status: 200,
      body: { state: 'draining', move: { limitsLeft: 2 } },
    })
    await admin.follower.stepOnce()
    expect(await basesOf()).toEqual(Array(2).fill({ [US]: 625_000, [EU]: 375_000 }))
    await adopt(2, US, EU)
    expect(await read(AP)).toMatchObject({ state: 'draining', move: { awaited: [AP] } })
    await adopt(2, AP)
    expect(await read(AP)).toMatchObject({ state: 'drained', move: null })
    const { body } = await admin.call('GET', '/v1/audit?limit=1')
    expect(body.items[0]).toMatchObject({ action: 'region.drained', objectId: AP })
  })

  it('stays without a part through edits and new policies, and gets its part back when it is resumed', async () => {
    await act(AP, 'drain')
    await admin.follower.stepOnce()
    await adopt(2, US, EU, AP)
    const { etag = '', body } = await admin.call('GET', POLICY)
    const split = { [US]: 50, [EU]: 30, [AP]: 20 }
    const limits = [
      aLimit({ split, capacity: 20_000 }),
      aLimit({ name: 'per-minute', algorithm: 'fixed_window', windowMs: WINDOW_MS, split }),
    ]
    const edited = await admin.call('PUT', POLICY, aPolicy({ limits }), { 'if-match': etag })
    expect(edited).toMatchObject({ status: 200, body: { limits: [{ epoch: 2 }, { epoch: 2 }] } })
    expect(body.limits[0].split).toEqual(split)
    const other = await admin.create({
      name: 'other',
      match: [{ key: 'user' }],
      limits: [limits[0]],
    })
    expect(other.body.limits[0].base).toEqual({ [US]: 625_000, [EU]: 375_000 })

    expect((await act(AP, 'resume')).body).toMatchObject({ state: 'resuming' })
    await admin.follower.stepOnce()
    const back = { [US]: 500_000, [EU]: 300_000, [AP]: 200_000 }
    expect(await basesOf()).toEqual([back, back])
    const adopted = { [bucketId]: 3, [windowId]: 3, [String(other.body.limits[0].id)]: 2 }
    for (const from of [US, EU, AP]) admin.follower.hear(aRecord({ from, adopted }))
    for (let step = 0; step < 2; step++) await admin.follower.stepOnce()
    expect(await read(AP)).toMatchObject({ state: 'active', move: null })
  })

  it('waits for an epoch that is open already, and goes on by itself', async () => {
    const { etag = '' } = await admin.call('GET', POLICY)
    const turned = { split: { [US]: 30, [EU]: 50, [AP]: 20 } }
    const limits = [
      aLimit(turned),
      aLimit({ name: 'per-minute', algorithm: 'fixed_window', windowMs: WINDOW_MS, ...turned }),
    ]
    await admin.call('PUT', POLICY, aPolicy({ limits }), { 'if-match': etag })
    await act(AP, 'drain')
    await admin.follower.stepOnce()
    expect((await basesOf())[0]).toHaveProperty(AP)
    await adopt(2, US, EU, AP)
    await adopt(3, US, EU, AP)
    expect(await read(AP)).toMatchObject({ state: 'drained' })
  })

  it('is back only once every limit gives it its part, also where an epoch without it was open', async () => {
    await act(AP, 'drain')
    await admin.follower.stepOnce()
    await adopt(2, US, EU, AP)
    const { etag = '' } = await admin.call('GET', POLICY)
    const turned = { split: { [US]: 30, [EU]: 50, [AP]: 20 } }
    await admin.call('PUT', POLICY, aPolicy({ limits: [aLimit(turned)] }), { 'if-match': etag })
    await act(AP, 'resume')
    await admin.follower.stepOnce()
    expect(await read(AP)).toMatchObject({ state: 'resuming', move: { limitsLeft: 1 } })
    await adopt(3, US, EU, AP)
    expect(await basesOf()).toEqual([{ [US]: 300_000, [EU]: 500_000, [AP]: 200_000 }])
    expect(await read(AP)).toMatchObject({ state: 'resuming' })
    await adopt(4, US, EU, AP)
    expect(await read(AP)).toMatchObject({ state: 'active' })
  })

  it('for a time resumes by itself when that is over, once, with an entry in the audit', async () => {
    const drain = (body?: object) => admin.call('POST', `/v1/regions/${AP}/drain`, body)
    const asked = await drain({ ttlSeconds: 60 })
    const resumesAt = new Date(admin.clock.nowMs + 60_000).toISOString()
    expect(asked.body).toMatchObject({ state: 'draining', resumesAt })
    await admin.follower.stepOnce()
    await adopt(2, US, EU, AP)
    expect(await read(AP)).toMatchObject({ state: 'drained', resumesAt })
    await pass(59_999)
    expect(await read(AP)).toMatchObject({ state: 'drained' })
    await pass(1)
    expect(await read(AP)).toMatchObject({ state: 'resuming' })
    expect(await read(AP)).not.toHaveProperty('resumesAt')
    await adopt(3, US, EU, AP)
    await pass(60_000)
    expect(await read(AP)).toMatchObject({ state: 'active', move: null })
    const path = `/v1/audit?objectKind=region&objectId=${AP}`
    const { items } = (await admin.call('GET', path)).body
    expect(items).toMatchObject([
      { action: 'region.resumed' },
      {
        action: 'region.expire',
        actor: 'admin',
        before: { resumesAt },
        after: { resumesAt: null },
      },
      { action: 'region.drained' },
      { action: 'region.drain', after: { state: 'draining', resumesAt } },
      { action: 'region.create' },
    ])
    for (const [at, { before }] of items.slice(0, -1).entries())
      expect(before, items[at].action).toEqual(items[at + 1].after)
  })

  it('is given more time, or no end, by draining it again, and the same again changes nothing', async () => {
    const drain = (body?: object) => admin.call('POST', `/v1/regions/${AP}/drain`, body)
    const first = await drain({ ttlSeconds: 60 })
    expect((await drain({ ttlSeconds: 60 })).body.revision).toBe(first.body.revision)
    const later = await drain({ ttlSeconds: 120 })
    expect(later.body.revision).toBeGreaterThan(first.body.revision)
    await pass(60_000)
    expect(await read(AP)).toMatchObject({ state: 'draining' })
    expect((await drain()).body).not.toHaveProperty('resumesAt')
    await pass(7 * 86_400_000)
    expect(await read(AP)).toMatchObject({ state: 'draining' })
    for (const ttlSeconds of [0, 1.5, 8 * 86_400, '60', null]) {
      const { status, body } = await drain({ ttlSeconds })
      expect([status, body.errors[0].field]).toEqual([400, 'ttlSeconds'])
      expect(body.errors[0].fix).toContain('or leave it out')
    }
  })

  it('needs no adoption of a long window, whose parts are pinned when it begins', async () => {
    const split = { [AP]: 100 }
    const long = { name: 'per-day', algorithm: 'fixed_window', windowMs: 86_400_000, split }
    await admin.create({ name: 'daily', match: [{ key: 'user' }], limits: [aLimit(long)] })
    await act(AP, 'drain')
    await admin.follower.stepOnce()
    const { body } = await admin.call('GET', '/v1/domains/api/policies/daily')
    const half = { [US]: 500_000, [EU]: 500_000 }
    expect(body.limits[0]).toMatchObject({ base: half, isEpochOpen: false })
    expect((await read(AP)).move.limitsLeft).toBe(2)
  })

  it('is not the last one that takes part', async () => {
    await act(AP, 'drain')
    await act(EU, 'drain')
    const refused = await act(US, 'drain')
    expect(refused).toMatchObject({ status: 409, body: { code: 'QUOTA_REGION_STATE' } })
    expect(refused.body.detail).toContain('resume one')
  })

  it('is removed without an edit of the policies, and named to those that recover until all know', async () => {
    const remove = () => admin.call('DELETE', `/v1/regions/${AP}`, undefined, { 'if-match': '*' })
    expect((await remove()).body.detail).toContain(`POST /v1/regions/${AP}/drain`)
    await act(AP, 'drain')
    await admin.follower.stepOnce()
    expect((await remove()).body.detail).toContain('being drained')
    await adopt(2, US, EU, AP)
    expect((await remove()).status).toBe(204)
    await admin.follower.stepOnce()
    const { body } = await admin.call('GET', POLICY)
    expect(body.limits[0].split).toEqual({ [US]: 62.5, [EU]: 37.5 })
    expect(await readMembership(admin.db)).toEqual({
      members: [EU, US],
      formerMembers: [AP],
      leastIncarnations: {},
    })
    const settledAt = () =>
      admin.db.selectFrom('departures').select('settled_at').executeTakeFirstOrThrow()
    admin.follower.hear(aRecord({ from: US, policyRevision: admin.cache.revision }))
    await admin.follower.stepOnce()
    expect((await settledAt()).settled_at).toBeNull()
    admin.follower.hear(aRecord({ from: EU, policyRevision: admin.cache.revision }))
    await admin.follower.stepOnce()
    expect((await settledAt()).settled_at).not.toBeNull()
    expect((await readMembership(admin.db)).formerMembers).toEqual([AP])
  })
})

describe('a region that an operator certifies to be gone', () => {
  it('is asked for who, why, and that nothing of it is in use', async () => {
    const refused = await certify(AP, { reason: '' })
    expect(refused.status).toBe(400)
    const fields = refused.body.errors.map((error: { field: string }) => error.field)
    expect(fields.sort()).toEqual(['certifiedBy', 'nothingInUse', 'reason'])
  })

  it('is refused while it is heard, and drained instead when it is heard later', async () => {
    admin.follower.hear(aRecord({ from: AP }))
    const refused = await certify(AP)
    expect(refused).toMatchObject({ status: 409, body: { code: 'QUOTA_REGION_STATE' } })
    expect(refused.body.detail).toContain('not fenced off')
    admin.clock.nowMs += 10_000
    expect((await certify(AP)).body.state).toBe('removing')
    admin.clock.nowMs += 1_000
    admin.follower.hear(aRecord({ from: AP }))
    await admin.follower.stepOnce()
    expect((await read(AP)).state).toBe('draining')
  })

  it('counts as having adopted only after every loan and every window of it, and is then out', async () => {
    // The lender's wait ends within the window in which the certificate is given.
    admin.clock.nowMs = Math.ceil(admin.clock.nowMs / WINDOW_MS) * WINDOW_MS + 1_000
    expect(await certify(AP)).toMatchObject({ status: 200, body: { state: 'removing' } })
    await admin.follower.stepOnce()
    await adopt(2, US, EU)
    await pass(LENDER_WAIT_MS - 1)
    expect(await read(AP)).toMatchObject({ move: { limitsLeft: 2, awaited: [AP] } })
    expect((await readMembership(admin.db)).leastIncarnations).toEqual({})
    await pass(1)
    expect(await read(AP)).toMatchObject({ move: { limitsLeft: 1 } })
    expect((await readMembership(admin.db)).leastIncarnations[AP]).toBeGreaterThan(0)
    await pass(WINDOW_MS - LENDER_WAIT_MS - 1_000)
    expect(await read(AP)).toMatchObject({ move: { limitsLeft: 1 } })
    await pass(100)
    expect((await admin.call('GET', `/v1/regions/${AP}`)).status).toBe(404)
    expect(await basesOf()).toEqual(Array(2).fill({ [US]: 625_000, [EU]: 375_000 }))
    const { body } = await admin.call('GET', '/v1/audit?limit=100')
    const entry = body.items.find((item: { action: string }) => item.action === 'region.certify')
    expect(entry.after.certificate).toMatchObject({
      certifiedBy: 'on-call',
      reason: 'the site burnt down',
    })
  })

  it('stands for the open epoch and for the next', async () => {
    const { etag = '' } = await admin.call('GET', POLICY)
    const turned = { split: { [US]: 30, [EU]: 50, [AP]: 20 } }
    await admin.call('PUT', POLICY, aPolicy({ limits: [aLimit(turned)] }), { 'if-match': etag })
    await certify(AP)
    await admin.follower.stepOnce()
    const adopted = (epoch: number) => {
      for (const from of [US, EU]) {
        admin.follower.hear(aRecord({ from, adopted: { [bucketId]: epoch } }))
      }
    }
    adopted(2)
    await pass(LENDER_WAIT_MS)
    adopted(3)
    await pass(0)
    expect((await admin.call('GET', `/v1/regions/${AP}`)).status).toBe(404)
  })

  it('waits anew by the clock of an admin that takes over', async () => {
    await certify(AP)
    await admin.follower.stepOnce()
    admin.clock.nowMs += LENDER_WAIT_MS
    const successor = await startAdmin({ url: admin.url })
    successor.clock.nowMs = admin.clock.nowMs
    await successor.follower.stepOnce()
    const { body } = await successor.call('GET', `/v1/regions/${AP}`)
    expect(body.move.limitsLeft).toBe(2)
    await successor.close()
  })

  it('returns with a higher incarnation than any it had, and never as new', async () => {
    await takeIncarnation(admin.db, { region: AP, requestId: 'a', atLeast: 0, nowMs: 7 })
    await certify(AP)
    await admin.follower.stepOnce()
    await adopt(2, US, EU)
    await pass(LENDER_WAIT_MS)
    const least = (await readMembership(admin.db)).leastIncarnations[AP] ?? 0
    const nowMs = admin.clock.nowMs
    const next = await takeIncarnation(admin.db, { region: AP, requestId: 'b', atLeast: 0, nowMs })
    expect(next.first).toBe(false)
    expect(next.incarnation).toBeGreaterThan(least)
  })
})
