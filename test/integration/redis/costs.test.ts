import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALGORITHMS } from '../../../shared/core/policy.ts'
import { GROUP_KEYS } from '../../../shared/redis/keys.ts'
import { limitDoubles, packDoubles } from '../../../shared/redis/layout.ts'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

/** Tokens that holders hold come back by a release: test/contract/check-store-returns.test.ts. */
const TIMED = ALGORITHMS.filter((algorithm) => algorithm !== 'concurrency')

async function begin(...limits: Parameters<typeof aLimit>[0][]): Promise<void> {
  await region.time.set(NOON_US)
  await region.begin(limits.map((limit, index) => aLimit({ id: index + 1, ...limit })))
}

describe.each(TIMED)('costs of a %s', (algorithm) => {
  it('B034: above the capacity never pass, spend nothing and create no key', async () => {
    await begin({ algorithm, capacity: 10 })
    expect(await region.check(11)).toEqual({
      allowed: false,
      reason: 'cost_exceeds_capacity',
      remaining: 10,
      resetMs: algorithm === 'fixed_window' ? 1_000 : 0,
      retryAfterMs: null,
    })
    expect(await region.redis.keys('c:*')).toEqual([])
    expect(await region.redis.keys('h:*')).toEqual([])
  })

  it('B040: of 2^53-1 are over the limit and wrap nothing', async () => {
    await begin({ algorithm, capacity: 10 })
    await region.check(4)
    for (let twice = 0; twice < 2; twice++) {
      expect(await region.check(Number.MAX_SAFE_INTEGER)).toMatchObject({
        allowed: false,
        reason: 'cost_exceeds_capacity',
      })
    }
    expect(await region.check(0)).toMatchObject({ allowed: true, remaining: 6 })
    await begin({ algorithm, capacity: Number.MAX_SAFE_INTEGER })
    expect(await region.check(Number.MAX_SAFE_INTEGER)).toMatchObject({
      allowed: true,
      remaining: 0,
    })
  })

  it.each([-1, -0.5, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'B037: of %d are refused by the script itself, which changes nothing',
    async (cost) => {
      await begin({ algorithm, capacity: 10 })
      await region.check(10)
      const { group, targets } = region.target(1)
      const { meta, hot, usage } = GROUP_KEYS[group] ?? { meta: '', hot: '', usage: '' }
      const counter = `c:${targets[0]?.counter}`
      const before = await region.redis.dumpBuffer(counter)
      const [sha] = await region.redis.hmget('qp:{qp}:region', 'checkSha')
      const limits = packDoubles(limitDoubles(region.limit(), 0))
      // A good check before the bad one in the same batch must not count either.
      const checks = packDoubles([1, 1, 1, 1, cost, 1, 1, 1])
      const keys = [meta, hot, usage, counter]
      const args = [region.version, limits, checks]
      expect(await region.redis.call('EVALSHA', sha ?? '', 4, ...keys, ...args)).toBe(4)
      expect(await region.redis.dumpBuffer(counter)).toEqual(before)
      expect(await region.check()).toMatchObject({ allowed: false })
    },
  )

  it('of 0 read exactly and change nothing', async () => {
    await begin({ algorithm, capacity: 5 })
    expect(await region.check(0)).toMatchObject({ allowed: true, remaining: 5 })
    expect(await region.redis.keys('c:*')).toEqual([])
    await region.check(5)
    const key = `c:${region.counter()}`
    const before = await region.redis.dumpBuffer(key)
    expect(await region.check(0)).toMatchObject({ allowed: false, reason: 'limit', remaining: 0 })
    expect(await region.redis.dumpBuffer(key)).toEqual(before)
  })

  it('above the share wait for a loan: no wait is promised', async () => {
    await begin({ algorithm, capacity: 10, home: 300_000 })
    expect(await region.check(4)).toMatchObject({
      allowed: false,
      reason: 'limit',
      remaining: 3,
      retryAfterMs: null,
    })
  })

  it('denied change no state, so that a flood does not shift the bucket', async () => {
    await begin({ algorithm, capacity: 10 })
    await region.check(10)
    const key = `c:${region.counter()}`
    const before = await region.redis.dumpBuffer(key)
    await region.time.advanceMs(50)
    expect(await region.admitted(500)).toBe(0)
    expect(await region.redis.dumpBuffer(key)).toEqual(before)
  })
})

describe('a check of several limits', () => {
  it('B041: takes from all of them or from none', async () => {
    await begin({ capacity: 100, windowMs: 60_000 }, { capacity: 5, windowMs: 60_000 })
    let admitted = 0
    for (let call = 0; call < 20; call++) {
      const { decisions } = await region.checks.check(
        region.target(1, 'acme', [1, 2]),
        region.version,
      )
      if (decisions.every(({ allowed }) => allowed)) admitted++
      else expect(decisions.map(({ allowed }) => allowed)).toEqual([true, false])
    }
    expect(admitted).toBe(5)
    expect(await region.check(0, 'acme', 1)).toMatchObject({ remaining: 95 })
    expect(await region.check(0, 'acme', 2)).toMatchObject({ remaining: 0 })
  })

  it('of one counter twice takes both costs', async () => {
    await begin({ capacity: 3 })
    const twice = region.target(1, 'acme', [1, 1])
    const first = await region.checks.check(twice, region.version)
    expect(first.decisions.every(({ allowed }) => allowed)).toBe(true)
    const second = await region.checks.check(twice, region.version)
    expect(second.decisions.every(({ allowed }) => allowed)).toBe(false)
    expect(await region.check(0)).toMatchObject({ remaining: 1 })
  })
})

describe.each(TIMED)('tokens given back to a %s', (algorithm) => {
  const giveBack = (cost: number, atUs: number): Promise<void> =>
    region.checks.giveBack(region.target(cost), region.version, atUs)

  it('B043: are credited at zero', async () => {
    await begin({ algorithm, capacity: 10 })
    const { atUs } = await region.checks.check(region.target(10), region.version)
    await giveBack(3, atUs)
    expect(await region.check(0)).toMatchObject({ remaining: 3 })
    expect(await region.admitted(5)).toBe(3)
  })

  it('B044: never lift it above its capacity', async () => {
    await begin({ algorithm, capacity: 2 })
    const { atUs } = await region.checks.check(region.target(1), region.version)
    await giveBack(1, atUs)
    await giveBack(1, atUs)
    expect(await region.admitted(5)).toBe(2)
  })

  it('B047: leave the expiry alone and create no key', async () => {
    await begin({ algorithm, capacity: 100, windowMs: 60_000 })
    const key = `c:${region.counter()}`
    await giveBack(5, region.time.us)
    expect(await region.redis.exists(key)).toBe(0)
    const { atUs } = await region.checks.check(region.target(50), region.version)
    await region.redis.pexpire(key, 1_234_000)
    await giveBack(5, atUs)
    expect(await region.redis.pttl(key)).toBeLessThanOrEqual(1_234_000)
    expect(await region.redis.pttl(key)).toBeGreaterThan(1_200_000)
  })

  it('of before a boot are not credited: their taking was forgotten', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 60_000 })
    const { atUs } = await region.checks.check(region.target(10), region.version)
    await region.time.advanceMs(5)
    await region.boot(1)
    await region.daemon.serve()
    await giveBack(10, atUs)
    expect(await region.check(0)).toMatchObject({ remaining: 0 })
  })
})

it('tokens given back late are not credited to a bucket that has refilled since', async () => {
  await begin({ capacity: 10, windowMs: 1_000 })
  const { atUs } = await region.checks.check(region.target(10), region.version)
  await region.time.advanceMs(1_000)
  expect(await region.admitted(10)).toBe(10)
  await region.checks.giveBack(region.target(10), region.version, atUs)
  expect(await region.admitted(10)).toBe(0)
})

it('B047: a late return never credits the next window', async () => {
  await begin({ algorithm: 'fixed_window', capacity: 100, windowMs: 60_000 })
  await region.time.advanceMs(59_000)
  const { atUs } = await region.checks.check(region.target(50), region.version)
  await region.time.advanceMs(2_000)
  await region.check(1)
  await region.checks.giveBack(region.target(30), region.version, atUs)
  expect(await region.check(0)).toMatchObject({ remaining: 99 })
})
