import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LEASE_MS } from '../../../shared/core/lease.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, NOON_US, RedisRegion, shareOf } from '../../support/redis-region.ts'
import { TEST_OFFSET_MS } from '../../support/test-time.ts'

/** Leases on a real Redis: what is debited, what comes back, and when neither. Its rule: test/unit/lease. */

const bucket = aLimit({ capacity: 100 })
const window = aLimit({ id: 2, algorithm: 'fixed_window', capacity: 100, windowMs: 10_000 })

/** What a bucket of 100 a second gives up while it has leases out. */
const GIVEN_UP = 10

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const remaining = async (): Promise<number> => (await region.check(0)).remaining

describe('a lease of a token bucket', () => {
  beforeEach(async () => {
    await region.time.set(NOON_US)
    await region.begin([bucket])
  })

  it('is debited at once, and the bucket gives up what it refills in the life of a lease', async () => {
    const grant = await region.lease('a', 30)
    expect(grant).toMatchObject({ tokens: 30, lifeMs: LEASE_MS, remaining: 60, atUs: NOON_US })
    expect(await remaining()).toBe(60)
    await region.time.advanceMs(LEASE_MS - 1)
    expect(await remaining()).toBe(69)
  })

  it('leaves the bucket its whole capacity again once it is void', async () => {
    await region.lease('a', 30)
    await region.time.advanceMs(LEASE_MS + 10_000)
    expect(await remaining()).toBe(100)
    // Nothing of it is left in the counter's value: the usual, shorter way of deciding works again.
    await region.check(1)
    const untouched = await region.check(1, 'globex')
    expect(untouched.remaining).toBe(99)
    const sizes = await Promise.all(
      ['acme', 'globex'].map((key) => region.redis.strlen(`c:${region.counter(key)}`)),
    )
    expect(sizes[0]).toBe(sizes[1])
  })

  it('holds the bucket down for as long as leases are taken', async () => {
    for (let round = 0; round < 5; round++) {
      const before = await remaining()
      expect(before).toBeLessThanOrEqual(round === 0 ? 100 : 100 - GIVEN_UP)
      await region.lease(`round-${round}`, 10)
      await region.time.advanceMs(LEASE_MS - 1)
    }
  })

  it('is there for a check that is sent behind what gives it back, also while it is on its way', async () => {
    await region.lease('a', 30)
    const back = region.giveUp('a', 30)
    expect(await region.check(85)).toMatchObject({ allowed: true })
    await back
    await region.begin([bucket])
    const grant = region.lease('b', 30)
    const recalled = region.giveUp('b', 30)
    expect(await region.check(85)).toMatchObject({ allowed: true })
    await Promise.all([grant, recalled])
    // What is said again is not credited again.
    await region.giveUp('b', 30)
    expect(await remaining()).toBeLessThanOrEqual(100 - GIVEN_UP - 85)
  })

  it('B043: what was not spent is credited when it comes back, once', async () => {
    await region.lease('a', 30)
    await region.giveUp('a', 20)
    expect(await remaining()).toBe(80)
    await region.giveUp('a', 20)
    expect(await remaining()).toBe(80)
  })

  it('B044: never comes back above what the bucket may hold beside other leases', async () => {
    await region.lease('a', 30)
    await region.lease('b', 30)
    expect(await remaining()).toBe(30)
    await region.time.advanceMs(90)
    expect(await remaining()).toBe(39)
    await region.giveUp('a', 30)
    // 90 less the 30 that are still out.
    expect(await remaining()).toBe(60)
  })

  it('never comes back as more than was granted', async () => {
    await region.lease('a', 10)
    await region.check(50)
    await region.giveUp('a', 1_000)
    expect(await remaining()).toBe(40)
  })

  it('is not credited after its life', async () => {
    await region.lease('a', 40)
    await region.check(50)
    await region.time.advanceMs(LEASE_MS)
    expect(await remaining()).toBe(10)
    await region.giveUp('a', 40)
    expect(await remaining()).toBe(10)
  })

  it('is not credited to a counter of another boot', async () => {
    await region.lease('a', 40)
    await region.boot(2)
    await region.daemon.serve()
    await region.giveUp('a', 40)
    expect(await remaining()).toBe(0)
  })

  it('takes at most half of what is left, and nothing where nothing is', async () => {
    expect(await region.lease('a', 1_000)).toMatchObject({ tokens: 45 })
    await region.check(45)
    expect(await region.lease('b', 10)).toMatchObject({ tokens: 0 })
  })

  it('ends with the loan that part of the share is', async () => {
    const nowMs = region.time.us / 1_000 - TEST_OFFSET_MS
    const home = POOL_UNITS / 2
    const share = { ...shareOf(region.counter(), home), borrowed: home, expiresAtMs: nowMs + 40 }
    await region.daemon.writeShares([share])
    expect(await region.lease('a', 10)).toMatchObject({ lifeMs: 40 })
  })

  it('counts as admitted, and what comes back as returned', async () => {
    await region.daemon.writeShares([shareOf(region.counter())])
    await region.lease('a', 30)
    await region.giveUp('a', 12)
    const { samples, usage } = await region.daemon.collect()
    expect(samples).toMatchObject([{ admitted: 30, returned: 12 }])
    expect(usage).toMatchObject([{ admitted: 30, returned: 12 }])
  })

  it('is refused under policies that are not in force any more', async () => {
    const before = region.version
    const ask = region.lease('a', 10)
    await ask
    await region.write([{ ...bucket, capacity: 200, burst: 200 }])
    region.version = before
    await expect(region.lease('b', 10)).rejects.toMatchObject({ code: 'QUOTA_POLICY_STALE' })
  })

  it('lets the bucket shrink with its share while it is out', async () => {
    await region.lease('a', 30)
    const share = { ...shareOf(region.counter(), POOL_UNITS / 10), shrinks: true }
    expect((await region.daemon.writeShares([share])).get(region.counter())).toBe('written')
    expect(await remaining()).toBe(9)
    await region.giveUp('a', 30)
    expect(await remaining()).toBe(9)
  })

  it('is stored with an expiry, as every key of a counter is (B080)', async () => {
    await region.lease('a', 10)
    const keys = (await region.redis.keys('*')).filter((key) => /^[ce]:/.test(key))
    const ttls = await Promise.all(keys.map((key) => region.redis.pttl(key)))
    expect(keys).toHaveLength(2)
    expect(Math.min(...ttls)).toBeGreaterThan(0)
  })
})

it('a limit that holds less than two blocks is not leased', async () => {
  await region.time.set(NOON_US)
  await region.begin([aLimit({ capacity: 20 })])
  expect(await region.lease('a', 10)).toBeNull()
  expect(await region.redis.keys('[ce]:*')).toEqual([])
  expect(await region.check(20)).toMatchObject({ allowed: true })
})

describe('a lease of a fixed window', () => {
  beforeEach(async () => {
    await region.time.set(NOON_US)
    await region.begin([{ ...window, id: 1 }])
  })

  it('counts in its window, and what comes back in time is there again', async () => {
    expect(await region.lease('a', 30)).toMatchObject({ tokens: 30, remaining: 70 })
    await region.giveUp('a', 25)
    expect(await remaining()).toBe(95)
  })

  it('B049: ends with its window', async () => {
    await region.time.set(NOON_US + 9_960_000)
    expect(await region.lease('a', 50)).toMatchObject({ tokens: 50, lifeMs: 40 })
  })

  it('B047: what comes back late is not credited to the next window, whose count stays', async () => {
    await region.time.set(NOON_US + 9_960_000)
    await region.lease('a', 50)
    await region.time.set(NOON_US + 10_010_000)
    await region.check(1)
    await region.giveUp('a', 50)
    expect(await remaining()).toBe(99)
  })
})
