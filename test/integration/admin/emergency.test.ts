import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { aRecord } from './a-record.ts'
import { type Admin, aLimit, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeEach(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  await admin.follower.stepOnce()
})
afterEach(async () => await admin.close())

const ACTIONS = '/v1/emergency-actions'

const begin = (action: object, headers = {}) =>
  admin.call(
    'POST',
    ACTIONS,
    { domain: 'api', policy: 'per-tenant', reason: 'overload', ttlSeconds: 60, ...action },
    headers,
  )
const list = async () => (await admin.call('GET', ACTIONS)).body.items
const policy = async () => (await admin.call('GET', POLICY)).body
const audit = async () =>
  (await admin.call('GET', '/v1/audit?objectKind=policy&objectId=api/per-tenant')).body.items
const told = () => [...admin.cache.policies].map(({ emergency }) => emergency)

/** Every region says that it works with the newest epochs. */
async function adoptAll(): Promise<void> {
  const { limits } = await policy()
  const adopted = Object.fromEntries(
    limits.map(({ id, epoch }: { id: number; epoch: number }) => [id, epoch]),
  )
  for (const from of admin.cache.members) admin.follower.hear(aRecord({ from, adopted }))
  await admin.follower.stepOnce()
}

describe('an emergency action', () => {
  it('is a revision that regions learn of, and shown with the policy and the time it has left', async () => {
    const before = await policy()
    const begun = await begin({ kind: 'multiply', factor: 2 })
    expect([begun.status, begun.etag]).toEqual([201, `"${begun.body.revision}"`])
    expect(begun.body.revision).toBeGreaterThan(before.revision)
    admin.clock.nowMs += 20_500
    await admin.follower.stepOnce()
    const expected = {
      kind: 'multiply',
      limit: 'per-second',
      factor: 2,
      reason: 'overload',
      begunBy: 'admin-token',
      remainingSeconds: 40,
    }
    expect(await list()).toMatchObject([expected])
    expect(await policy()).toMatchObject({
      emergency: [expected],
      limits: [{ capacity: 10_000, inForce: { capacity: 20_000, burst: 20_000, lending: 'free' } }],
    })
    const expiresAtMs = admin.clock.nowMs + 39_500
    expect(told()).toEqual([[{ id: begun.body.id, effect: expect.anything(), expiresAtMs }]])
    expect((await admin.call('GET', '/v1/shares')).body.limits[0].capacity).toBe(20_000)
  })

  it('ends by itself at its time, in the books and for the regions, with an entry in the audit', async () => {
    await begin({ kind: 'block', value: 'mallory' })
    admin.clock.nowMs += 60_000
    expect(await list()).toEqual([])
    expect((await policy()).emergency).toEqual([])
    const { revision } = await policy()
    await admin.follower.stepOnce()
    expect((await policy()).revision).toBeGreaterThan(revision)
    expect(told()).toEqual([undefined])
    expect(await audit()).toMatchObject([
      { action: 'emergency.expire', actor: 'admin', before: { value: 'mallory' }, after: null },
      { action: 'emergency.begin', reason: 'overload', after: { kind: 'block', value: 'mallory' } },
      { action: 'policy.create' },
    ])
    await admin.follower.stepOnce()
    expect(await audit()).toHaveLength(3)
  })

  it('is ended by an operator before its time, once', async () => {
    const { body } = await begin({ kind: 'allow', value: 'acme' })
    const path = `${ACTIONS}/${body.id}`
    expect((await admin.call('DELETE', `${path}?domain=other`)).status).toBe(404)
    const ended = await admin.call('DELETE', path, undefined, { 'x-change-reason': 'over' })
    expect(ended.status).toBe(204)
    const again = await admin.call('DELETE', path)
    expect([again.status, again.body.code]).toEqual([404, 'QUOTA_ACTION_NOT_FOUND'])
    expect(await list()).toEqual([])
    expect((await audit())[0]).toMatchObject({ action: 'emergency.end', reason: 'over' })
  })

  it('takes the place of the one before about the same, so that nothing is multiplied twice', async () => {
    await begin({ kind: 'multiply', factor: 2 })
    await begin({ kind: 'fix', capacity: 500 })
    await begin({ kind: 'block', value: 'acme' })
    await begin({ kind: 'allow', value: 'acme' })
    expect(await list()).toMatchObject([
      { kind: 'fix', capacity: 500, burst: 500 },
      { kind: 'allow', value: 'acme' },
    ])
    expect((await policy()).limits[0].inForce).toMatchObject({ capacity: 500 })
    expect((await audit())[0]).toMatchObject({ before: [{ kind: 'block' }] })
  })

  it('goes with its policy, and never edits it', async () => {
    const before = await policy()
    await begin({ kind: 'fix', capacity: 7 })
    const { etag, body } = await admin.call('GET', POLICY)
    expect(body.limits[0].capacity).toBe(before.limits[0].capacity)
    await admin.call('DELETE', POLICY, undefined, { 'if-match': etag ?? '' })
    expect(await list()).toEqual([])
  })

  it('is refused with the field and the fix where it says too much, too little or nothing', async () => {
    const cases: readonly [object, string][] = [
      [{ kind: 'explode' }, 'kind'],
      [{ kind: 'block' }, 'value'],
      [{ kind: 'block', value: '' }, 'value'],
      [{ kind: 'block', value: 'a', factor: 2 }, 'factor'],
      [{ kind: 'multiply', factor: 0 }, 'factor'],
      [{ kind: 'multiply', factor: 2, limit: 'per-year' }, 'limit'],
      [{ kind: 'fix', capacity: 1.5 }, 'capacity'],
      [{ kind: 'fix', capacity: 0, burst: 1 }, 'burst'],
      [{ kind: 'freeze', ttlSeconds: 0 }, 'ttlSeconds'],
      [{ kind: 'freeze', ttlSeconds: 8 * 86_400 }, 'ttlSeconds'],
      [{ kind: 'freeze', ttlSeconds: undefined }, 'ttlSeconds'],
      [{ kind: 'freeze', reason: '' }, 'reason'],
      [{ kind: 'freeze', reason: undefined }, 'reason'],
      [{ kind: 'freeze', limt: 'per-second' }, 'limt'],
      [{ kind: 'pin', split: { 'us-east-1': 50 } }, 'split'],
      [{ kind: 'pin', split: { 'mars-1': 100 } }, 'split'],
    ]
    for (const [action, field] of cases) {
      const { status, body } = await begin(action)
      expect([status, body.errors[0].field], JSON.stringify(action)).toEqual([400, field])
      expect(body.errors[0].fix, JSON.stringify(action)).not.toBe('')
    }
    expect((await begin({ kind: 'freeze', policy: 'none' })).status).toBe(404)
    expect(await list()).toEqual([])
  })

  it('is not for tokens that are given for good, nor for what regions do not lend', async () => {
    const window = { algorithm: 'fixed_window', windowMs: undefined }
    const day = aLimit({ ...window, name: 'a-day', calendar: { unit: 'day', timeZone: 'UTC' } })
    const change = { name: 'long', match: [{ key: 'user' }], limits: [day] }
    expect((await admin.create(change)).status).toBe(201)
    for (const action of [
      { kind: 'multiply', factor: 2 },
      { kind: 'pin', limit: 'a-day' },
    ]) {
      const { status, body } = await begin({ ...action, policy: 'long' })
      expect([status, body.errors[0].field]).toEqual([400, 'limit'])
    }
    expect((await begin({ kind: 'block', value: 'u', policy: 'long' })).status).toBe(201)
  })

  it('that pins a split moves the base by an epoch, and back when it has ended', async () => {
    const base = async () => (await policy()).limits[0].base
    const usual = await base()
    const pinned = await begin({ kind: 'pin', split: { 'us-east-1': 10, 'eu-west-1': 90 } })
    expect(pinned.status).toBe(201)
    expect(await base()).toEqual({ 'us-east-1': 100_000, 'eu-west-1': 900_000 })
    const early = await begin({ kind: 'pin', split: { 'us-east-1': 20, 'eu-west-1': 80 } })
    expect([early.status, early.body.code]).toEqual([409, 'QUOTA_EPOCH_OPEN'])
    expect((await policy()).limits[0].inForce.lending).toBe('none')
    admin.clock.nowMs += 60_000
    await admin.follower.stepOnce()
    expect(await list()).toEqual([])
    // The first move has not ended everywhere.
    expect((await base())['us-east-1']).toBe(100_000)
    await adoptAll()
    await admin.follower.stepOnce()
    expect(await base()).toEqual(usual)
    const revision = (await policy()).revision
    await adoptAll()
    await admin.follower.stepOnce()
    expect((await policy()).limits[0].isEpochOpen).toBe(false)
    expect((await audit()).map(({ action }: { action: string }) => action)).toEqual([
      'epoch.close',
      'emergency.restore',
      'epoch.close',
      'emergency.expire',
      'emergency.begin',
      'policy.create',
    ])
    expect((await policy()).revision).toBe(revision + 1)
  })

  it('may be begun and ended by a token of its domain alone', async () => {
    const create = await admin.call('POST', '/v1/tokens', {
      name: 'on-call',
      scopes: ['quota:write', 'quota:read'],
      domains: ['api'],
    })
    const authorization = `Bearer ${create.body.token}`
    const { status, body } = await begin({ kind: 'freeze' }, { authorization })
    expect([status, body.begunBy]).toEqual([201, expect.stringContaining('on-call')])
    expect((await begin({ kind: 'freeze', domain: 'other' }, { authorization })).status).toBe(403)
    const end = (query: string) =>
      admin.call('DELETE', `${ACTIONS}/${body.id}${query}`, undefined, { authorization })
    expect((await end('')).status).toBe(403)
    expect((await end('?domain=api')).status).toBe(204)
  })
})

describe('a reset', () => {
  it('of one limit leaves the counters of the others', async () => {
    const other = aLimit({ name: 'per-minute', windowMs: 60_000 })
    const change = { name: 'two', match: [{ key: 'user' }], limits: [aLimit(), other] }
    await admin.create(change)
    const path = '/v1/domains/api/policies/two/reset'
    const reset = await admin.call('POST', path, { limit: 'per-minute' })
    expect(reset.body.limits.map((one: { usageEpoch: number }) => one.usageEpoch)).toEqual([0, 1])
    expect((await admin.call('POST', path, { limit: 'per-year' })).status).toBe(400)
    const all = await admin.call('POST', path)
    expect(all.body.limits.map((one: { usageEpoch: number }) => one.usageEpoch)).toEqual([1, 2])
  })
})
