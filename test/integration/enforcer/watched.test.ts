import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import { createRedis } from '../../../shared/redis/client.ts'
import { aLimit, aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** So long that no test meets its end. */
const windowMs = 3_600_000

let region: TestRegion
let enforcer: TestEnforcer
let domain = ''
let domains = 0

beforeAll(async () => {
  region = await startRegion([])
  enforcer = await region.startEnforcer()
})
afterAll(() => region.stop())
beforeEach(() => {
  domain = `domain-${++domains}`
})

async function write(...policies: readonly RegionPolicySpec[]): Promise<void> {
  const version = await region.write(policies.map((policy) => ({ ...policy, domain })))
  await expect.poll(() => enforcer.policies.current()?.version).toBe(version)
}

const limits = (capacity: number) => [{ capacity, windowMs }]
const user = (capacity: number) =>
  aPolicy({ name: `user-${capacity}`, match: [{ key: 'user' }], limits: limits(capacity) })
const BOTH = [{ tenant: 'acme' }, { user: 'ann' }]

async function keys(): Promise<readonly string[]> {
  const redis = createRedis({ url: region.redis.url, name: 'keys', onError: () => {} })
  await new Promise((resolve) => redis.once('ready', resolve))
  try {
    return await redis.keys('c:*')
  } finally {
    redis.disconnect()
  }
}

describe('a policy in shadow', () => {
  it('never denies, says what it would have denied, and is counted', async () => {
    await write(aPolicy({ name: 'dark', shadow: true, limits: limits(2) }))
    const answers = []
    for (let turn = 0; turn < 3; turn++) {
      answers.push((await enforcer.check('acme', { domain, query: '?deny=429' })).answer)
    }
    expect(answers.map(({ allowed }) => allowed)).toEqual([true, true, true])
    expect(answers.map(({ decisions }) => decisions)).toEqual([[], [], []])
    expect(answers.map(({ unmatched }) => unmatched)).toEqual([undefined, undefined, undefined])
    expect(answers.map(({ watched }) => watched?.[0])).toMatchObject([
      { kind: 'shadow', policy: `${domain}/dark`, allowed: true, remaining: 1 },
      { allowed: true, remaining: 0 },
      { allowed: false, reason: 'limit', remaining: 0 },
    ])
    const name = 'quotaplane_watched_decisions_total'
    expect(
      await enforcer.series(name, `policy="${domain}/dark",kind="shadow",outcome="denied"`),
    ).toBe(1)
    expect(
      await enforcer.series(name, `policy="${domain}/dark",kind="shadow",outcome="allowed"`),
    ).toBe(2)
  })

  it('is released with the check, so that it counts only who holds something; it is not refunded', async () => {
    const held = { algorithm: 'concurrency', capacity: 1, windowMs } as const
    await write(
      aPolicy({ name: 'held', shadow: true, limits: [held] }),
      aPolicy({ name: 'spent', match: [{ key: 'user' }], shadow: true, limits: limits(1) }),
      aPolicy({ name: 'live', match: [{ key: 'live' }], limits: limits(100) }),
    )
    const descriptors = ['tenant', 'user', 'live'].map((key) => ({
      entries: [{ key, value: 'one' }],
    }))
    const post = async (path: string, change: object) => {
      const payload = { domain, descriptors, ...change }
      return (await enforcer.app.inject({ method: 'POST', url: path, payload })).json()
    }
    const watched = async (requestId: string) => {
      const answer = await post('/v1/check', { requestId })
      const said = answer.watched.map(({ allowed }: { allowed: boolean }) => allowed)
      return { admittedAtUs: answer.admittedAtUs, said }
    }
    const { admittedAtUs, said } = await watched('first')
    expect(said).toEqual([true, true])
    expect((await watched('second')).said).toEqual([false, false])
    const refund = await post('/v1/refund', { requestId: 'first', admittedAtUs })
    expect(refund).toMatchObject({ outcome: 'refunded', limits: [{ policy: `${domain}/live` }] })
    await post('/v1/release', { requestId: 'first' })
    expect((await watched('third')).said).toEqual([true, false])
  })

  it('spends nothing of a check that an enforced policy denies', async () => {
    await write(aPolicy({ shadow: true, limits: limits(5) }), user(1))
    await enforcer.check(BOTH, { domain })
    const denied = await enforcer.check(BOTH, { domain })
    expect(denied.answer.allowed).toBe(false)
    expect(denied.answer.watched?.[0]).toMatchObject({ allowed: true, remaining: 4 })
  })
})

describe('a candidate', () => {
  const withCandidate = (live: number, candidate: number): RegionPolicySpec => {
    const limit = aLimit({ capacity: live, windowMs, burst: live })
    const tried = aLimit({ capacity: candidate, windowMs, burst: candidate })
    return aPolicy({ limits: [limit, { ...tried, name: limit.name, candidateOf: limit.id }] })
  }

  it('counts on its own, would have denied, and leaves the live limit as it is', async () => {
    await write(withCandidate(3, 1))
    await enforcer.check('acme', { domain })
    const { answer } = await enforcer.check('acme', { domain })
    expect(answer).toMatchObject({
      allowed: true,
      decisions: [{ allowed: true, limit: 3, remaining: 1 }],
      watched: [{ kind: 'candidate', allowed: false, limit: 1, remaining: 0 }],
    })
  })

  it('goes on where only the limit that it stands beside denies', async () => {
    await write(withCandidate(1, 3))
    await enforcer.check('acme', { domain })
    const { answer } = await enforcer.check('acme', { domain })
    expect(answer).toMatchObject({
      allowed: false,
      decisions: [{ allowed: false, limit: 1 }],
      watched: [{ allowed: true, limit: 3, remaining: 1 }],
    })
  })

  it('spends nothing of a check that another limit denies', async () => {
    await write(withCandidate(9, 5), user(1))
    await enforcer.check(BOTH, { domain })
    const { answer } = await enforcer.check(BOTH, { domain })
    expect(answer).toMatchObject({ allowed: false, watched: [{ allowed: true, remaining: 4 }] })
  })
})

describe('an unlimited policy', () => {
  it('allows everything and counts nothing, beside one that denies', async () => {
    await write(aPolicy({ unlimited: true, limits: [] }), user(1))
    const before = await keys()
    expect((await enforcer.check('acme', { domain, cost: 1_000_000 })).answer).toMatchObject({
      allowed: true,
      decisions: [],
      unlimited: [0],
    })
    expect(await keys()).toEqual(before)
    await enforcer.check(BOTH, { domain })
    expect((await enforcer.check(BOTH, { domain })).answer).toMatchObject({
      allowed: false,
      decisions: [{ descriptor: 1, allowed: false }],
      unlimited: [0],
    })
  })
})

describe('a limit of 0', () => {
  it('denies all, without a time to retry, stores nothing and spends nothing of others', async () => {
    await write(aPolicy({ limits: limits(0) }), user(2))
    const before = await keys()
    const { answer, status, retryAfter } = await enforcer.check(BOTH, {
      domain,
      query: '?deny=429',
    })
    expect({ status, retryAfter }).toEqual({ status: 429, retryAfter: undefined })
    expect(answer.decisions).toMatchObject([
      { allowed: false, reason: 'deny_all', limit: 0, remaining: 0, retryAfterMs: null },
      { allowed: true, remaining: 2 },
    ])
    expect(await keys()).toEqual(before)
    const peek = await enforcer.check('acme', { domain, cost: 0 })
    expect(peek.answer.allowed).toBe(false)
  })

  it('that was lowered to it denies the next check, and one that was raised admits again', async () => {
    const policy = aPolicy({ limits: [{ id: 900, capacity: 5, windowMs: 1_000 }] })
    await write(policy)
    await enforcer.check('acme', { domain })
    const none = aPolicy({ limits: [{ id: 900, capacity: 0, burst: 0, windowMs: 1_000 }] })
    await write(none)
    expect((await enforcer.check('acme', { domain })).answer.allowed).toBe(false)
    await write(aPolicy({ limits: [{ id: 900, capacity: 5, windowMs: 1_000 }] }))
    await expect
      .poll(async () => (await enforcer.check('acme', { domain })).answer.allowed, {
        timeout: 5_000,
      })
      .toBe(true)
  })
})
