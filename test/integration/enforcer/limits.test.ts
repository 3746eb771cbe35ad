import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import type { CheckDecision } from '../../../shared/protocol/check-answer.ts'
import { createRedis } from '../../../shared/redis/client.ts'
import { aPolicy, type Reply, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** So long that no test meets its end. */
const HOUR_MS = 3_600_000

const ALGORITHMS = ['token_bucket', 'fixed_window'] as const

let region: TestRegion
let enforcer: TestEnforcer
let domains = 0

/** A domain of its own with these policies, beside those of other tests. */
const written: RegionPolicySpec[] = []
async function aDomain(...policies: readonly RegionPolicySpec[]): Promise<string> {
  const domain = `domain-${++domains}`
  written.push(...policies.map((policy) => ({ ...policy, domain })))
  const version = await region.write(written)
  await expect.poll(() => enforcer.policies.current()?.version).toBe(version)
  return domain
}

function first(reply: Reply): CheckDecision {
  const [decision] = reply.answer.decisions
  if (decision === undefined) throw new Error(`no decision in ${JSON.stringify(reply)}`)
  return decision
}

async function remaining(tenant: string, domain: string): Promise<number | null> {
  return first(await enforcer.check(tenant, { cost: 0, domain })).remaining
}

const admitted = (replies: readonly Reply[]): number =>
  replies.filter(({ answer }) => answer.allowed).length

beforeAll(async () => {
  region = await startRegion([])
  enforcer = await region.startEnforcer()
})
afterAll(() => region.stop())

describe.each(ALGORITHMS)('a limit by %s', (algorithm) => {
  it('admits exactly 5 of 1000 concurrent checks over four enforcers (B032)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 5, windowMs: HOUR_MS }] }),
    )
    const others = await Promise.all([1, 2, 3].map(() => region.startEnforcer()))
    const all = [enforcer, ...others]
    const replies = await Promise.all(
      Array.from({ length: 1_000 }, (_, turn) => all[turn % 4]?.check('acme', { domain })),
    )
    expect(admitted(replies.filter((reply) => reply !== undefined))).toBe(5)
    expect(await remaining('acme', domain)).toBe(0)
  })

  it('denies a cost above the limit for good, spends nothing and creates no key (B034)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 10, windowMs: 60_000 }] }),
    )
    const reply = await enforcer.check('dear', { domain, cost: 11, query: '?deny=429' })
    expect(reply).toMatchObject({ status: 429, retryAfter: undefined })
    expect(first(reply)).toMatchObject({
      allowed: false,
      reason: 'cost_exceeds_capacity',
      retryAfterMs: null,
    })
    expect(await counters('dear')).toEqual([])
    expect(await remaining('dear', domain)).toBe(10)
  })

  it('admits a cost of the whole limit when full, and says when it can again (B035)', async () => {
    const windowMs = algorithm === 'token_bucket' ? 700 : 1_000
    const domain = await aDomain(aPolicy({ limits: [{ algorithm, capacity: 10, windowMs }] }))
    expect((await enforcer.check('whole', { domain, cost: 10 })).answer.allowed).toBe(true)
    const askedMs = performance.now()
    const denied = first(await enforcer.check('whole', { domain, cost: 10 }))
    expect(denied).toMatchObject({ allowed: false, reason: 'limit' })
    expect(denied.retryAfterMs).toBeGreaterThan(0)
    expect(denied.retryAfterMs).toBeLessThanOrEqual(windowMs)
    await expect
      .poll(async () => (await enforcer.check('whole', { domain, cost: 10 })).answer.allowed, {
        interval: 2,
        timeout: 5_000,
      })
      .toBe(true)
    // Redis TIME and this clock are one machine's; the check that asked may have been under way a while.
    expect(performance.now() - askedMs).toBeGreaterThan((denied.retryAfterMs ?? 0) - 5)
  })

  it('refuses a wrong cost and changes nothing by it (B037)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 2, windowMs: HOUR_MS }] }),
    )
    await enforcer.check('drained', { domain, cost: 2 })
    for (const cost of ['-1', '-0.5', '"-1"', 'NaN', '1e309', '1.5', 'null', 'true', '[]']) {
      const reply = await enforcer.app.inject({
        method: 'POST',
        url: '/v1/check',
        headers: { 'content-type': 'application/json' },
        payload: `{"domain":"${domain}","descriptors":[{"entries":[{"key":"tenant","value":"drained"}]}],"cost":${cost}}`,
      })
      expect(reply.statusCode, cost).toBe(400)
    }
    expect((await enforcer.check('drained', { domain })).answer.allowed).toBe(false)
  })

  it('never wraps on a huge cost (B040)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 100, windowMs: HOUR_MS }] }),
    )
    for (const cost of [2 ** 32 - 1, 2 ** 32 - 1, Number.MAX_SAFE_INTEGER]) {
      expect((await enforcer.check('huge', { domain, cost })).answer.allowed).toBe(false)
    }
    expect((await enforcer.check('huge', { domain, cost: 2 ** 63 })).status).toBe(400)
    expect(await remaining('huge', domain)).toBe(100)
  })

  it('takes the largest limit there is', async () => {
    const capacity = Number.MAX_SAFE_INTEGER
    const domain = await aDomain(aPolicy({ limits: [{ algorithm, capacity, windowMs: HOUR_MS }] }))
    const reply = first(await enforcer.check('all', { domain, cost: capacity }))
    expect(reply).toMatchObject({ allowed: true, limit: capacity, remaining: 0 })
  })

  it('reads without spending at a cost of 0', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 3, windowMs: HOUR_MS }] }),
    )
    for (let turn = 0; turn < 5; turn++) expect(await remaining('read', domain)).toBe(3)
    await enforcer.check('read', { domain })
    expect(await remaining('read', domain)).toBe(2)
  })

  it('counts odd, unlike names apart (B079)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 1, windowMs: HOUR_MS }] }),
    )
    const odd = [' ', '\u0000', '\n', '😀', 'שלום', '*?[', '__proto__', 'constructor', 'a=b', 'a,b']
    const long = ['x'.repeat(1_024), `${'x'.repeat(1_023)}y`]
    for (const name of [...odd, ...long]) {
      expect((await enforcer.check(name, { domain })).answer.allowed, name).toBe(true)
      expect((await enforcer.check(name, { domain })).answer.allowed, name).toBe(false)
    }
    expect((await enforcer.check('', { domain })).status).toBe(400)
    expect((await enforcer.check('x'.repeat(1_025), { domain })).status).toBe(400)
  })

  it('counts one subject apart under two policies with equal limits (B073)', async () => {
    for (let policy = 0; policy < 2; policy++) {
      const limits = [{ algorithm, capacity: 3, windowMs: HOUR_MS }]
      const domain = await aDomain(aPolicy({ limits }))
      const checks = Array.from({ length: 5 }, () => enforcer.check('twin', { domain }))
      expect(admitted(await Promise.all(checks))).toBe(3)
    }
  })

  it('leaves no counter without an end in Redis (B080)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm, capacity: 3, windowMs: 60_000 }] }),
    )
    const tenant = `ends-${algorithm}`
    for (let turn = 0; turn < 10; turn++) await enforcer.check(tenant, { domain })
    const found = await counters(tenant)
    expect(found).toHaveLength(1)
    for (const { ttlMs } of found) expect(ttlMs).toBeGreaterThan(0)
  })
})

describe('a token bucket', () => {
  it('admits 1000 of 1001 at once and counts down from 999 (B005)', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ capacity: 1_000, windowMs: HOUR_MS }] }))
    const replies = await Promise.all(
      Array.from({ length: 1_001 }, () => enforcer.check('many', { domain })),
    )
    const left = replies.map((reply) => first(reply).remaining)
    expect(admitted(replies)).toBe(1_000)
    expect(left.slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, spent) => 999 - spent))
    expect(replies.at(-1)?.answer.decisions[0]?.retryAfterMs).toBeLessThanOrEqual(3_600)
  })

  it('still limits after a long idle time (B026)', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ capacity: 1, windowMs: 1_500 }] }))
    for (let round = 0; round < 2; round++) {
      await expect.poll(() => remaining('idle', domain), { interval: 20, timeout: 5_000 }).toBe(1)
      const burst = Array.from({ length: 13 }, () => enforcer.check('idle', { domain }))
      expect(admitted(await Promise.all(burst))).toBe(1)
    }
  })
})

describe('several limits on one check', () => {
  const fixed = { algorithm: 'fixed_window', windowMs: HOUR_MS } as const
  const slow = { algorithm: 'token_bucket', windowMs: HOUR_MS } as const

  it.each([fixed, slow])('take nothing from one when another denies (B041)', async (kind) => {
    const limits = [
      { ...kind, name: 'wide', capacity: 100 },
      { ...kind, name: 'tight', capacity: 5 },
    ]
    const domain = await aDomain(aPolicy({ limits }))
    const replies = []
    for (let turn = 0; turn < 20; turn++) replies.push(await enforcer.check('both', { domain }))
    expect(admitted(replies)).toBe(5)
    expect(replies.at(-1)?.answer.decisions).toMatchObject([
      { limitName: 'wide', allowed: true, remaining: 95 },
      { limitName: 'tight', allowed: false, remaining: 0, reason: 'limit' },
    ])
  })

  it.each([
    ['the tight limit first', ['user', 'tenant']],
    ['the tight limit last', ['tenant', 'user']],
  ])('take nothing across slot groups either, %s (B041)', async (_order, keys) => {
    const domain = await aDomain(
      aPolicy({ match: [{ key: 'tenant' }], limits: [{ ...fixed, capacity: 100 }] }),
      aPolicy({ match: [{ key: 'user' }], limits: [{ ...fixed, capacity: 5 }] }),
    )
    // Enough pairs that most of them lie in different slot groups.
    for (let pair = 0; pair < 8; pair++) {
      const asked = keys.map((key) => ({ [key]: `${key}-${pair}` }))
      const replies = await Promise.all(
        Array.from({ length: 20 }, () => enforcer.check(asked, { domain })),
      )
      expect(admitted(replies)).toBe(5)
      const read = await enforcer.check(asked, { domain, cost: 0 })
      const left = read.answer.decisions.map((decision) => decision.remaining)
      expect(left).toEqual(keys.map((key) => (key === 'tenant' ? 95 : 0)))
    }
    expect(await enforcer.series('quotaplane_give_backs_total', 'outcome="failed"')).toBe(0)
  })

  it('credits what is given back also at a remaining of 0 (B043)', async () => {
    const domain = await aDomain(
      aPolicy({ match: [{ key: 'tenant' }], limits: [{ ...slow, capacity: 3 }] }),
      aPolicy({ match: [{ key: 'user' }], limits: [{ ...fixed, capacity: 3 }] }),
    )
    for (let pair = 0; pair < 4; pair++) {
      const asked = [{ tenant: `t${pair}` }, { user: `u${pair}` }]
      await enforcer.check([{ user: `u${pair}` }], { domain, cost: 1 })
      const denied = await enforcer.check(asked, { domain, cost: 3 })
      expect(denied.answer.allowed).toBe(false)
      expect(await remaining(`t${pair}`, domain)).toBe(3)
    }
  })
})

describe('a check that no policy governs', () => {
  it('is allowed, says so and is counted (B161)', async () => {
    const domain = await aDomain(aPolicy())
    const before = await enforcer.series('quotaplane_unmatched_checks_total')
    for (const options of [{ domain: 'nowhere' }, { domain: '__proto__' }]) {
      expect((await enforcer.check('acme', options)).answer).toMatchObject({
        allowed: true,
        unmatched: true,
        decisions: [],
      })
    }
    expect((await enforcer.check([{ path: '/' }], { domain })).answer.unmatched).toBe(true)
    expect((await enforcer.check('acme', { domain: '' })).status).toBe(400)
    expect(await enforcer.series('quotaplane_unmatched_checks_total')).toBe(before + 3)
  })

  it('tells which descriptors matched, in order (B161)', async () => {
    const domain = await aDomain(aPolicy(), aPolicy({ match: [{ key: 'user' }] }))
    const { answer } = await enforcer.check([{ user: 'u' }, { path: '/' }, { tenant: 't' }], {
      domain,
    })
    expect(answer.unmatched).toBeUndefined()
    expect(answer.decisions.map(({ descriptor }) => descriptor)).toEqual([0, 2])
  })
})

describe('an enforcer', () => {
  it('lets its own clock decide nothing (B112)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ algorithm: 'fixed_window', capacity: 10, windowMs: HOUR_MS }] }),
    )
    const ahead = await region.startEnforcer({
      clock: {
        monotonicMs: () => performance.now() + 3_000,
        wallMs: () => Date.now() + 3_000,
      },
    })
    const replies = []
    for (let turn = 0; turn < 20; turn++) {
      replies.push(await (turn % 2 === 0 ? enforcer : ahead).check('skew', { domain }))
    }
    expect(admitted(replies)).toBe(10)
    const [mine, theirs] = replies.slice(-2).map((reply) => first(reply).resetMs ?? 0)
    expect(Math.abs((mine ?? 0) - (theirs ?? 0))).toBeLessThan(1_000)
  })

  it('keeps an exhausted tenant denied among thousands of others (B088)', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ capacity: 1, windowMs: HOUR_MS }] }))
    await enforcer.check('exhausted', { domain })
    for (let batch = 0; batch < 5; batch++) {
      const others = Array.from({ length: 1_000 }, (_, id) => `${batch}-${id}`)
      await Promise.all(others.map((other) => enforcer.check(other, { domain, cost: 0 })))
      expect((await enforcer.check('exhausted', { domain })).answer.allowed).toBe(false)
    }
    expect(await enforcer.series('quotaplane_routes_kept')).toBeLessThanOrEqual(32_768)
  })

  it('counts every check exactly once: allowed, denied and error sum to the checks sent', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ capacity: 7, windowMs: HOUR_MS }] }))
    const outcome = (name: string) =>
      enforcer.series('quotaplane_checks_total', `outcome="${name}"`)
    const before = [await outcome('allowed'), await outcome('denied'), await outcome('error')]
    await Promise.all(Array.from({ length: 100 }, () => enforcer.check('sum', { domain })))
    await enforcer.check('sum', { domain, cost: -1 })
    const after = [await outcome('allowed'), await outcome('denied'), await outcome('error')]
    expect(after.map((count, position) => count - (before[position] ?? 0))).toEqual([7, 93, 0])
  })
})

/** Keys of counters whose name holds `text`, with the time they have left. */
async function counters(text: string): Promise<{ key: string; ttlMs: number }[]> {
  const redis = createRedis({ url: region.redis.url, name: 'test', onError: () => {} })
  await new Promise((resolve) => redis.once('ready', resolve))
  try {
    const keys = await redis.keys(`*${text}*`)
    return await Promise.all(keys.map(async (key) => ({ key, ttlMs: await redis.pttl(key) })))
  } finally {
    redis.disconnect()
  }
}
