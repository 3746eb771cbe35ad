import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { groupKeys } from '../../../shared/redis/keys.ts'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())
beforeEach(() => region.time.set(NOON_US))

describe('a changed limit', () => {
  it('B118: clamps at once when lowered, refills on, and has the new burst when raised', async () => {
    await region.begin([aLimit({ capacity: 100 })])
    await region.check(20)
    await region.write([aLimit({ capacity: 10 })])
    expect(await region.check(0)).toMatchObject({ remaining: 10 })
    await region.check(10)
    await region.time.advanceMs(500)
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
    await region.write([aLimit({ capacity: 50 })])
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
    await region.time.advanceMs(10_000)
    expect(await region.check(0)).toMatchObject({ remaining: 50 })
  })

  it('B118: clamps a share to its part of the lowered limit, and lets it rise to its part again', async () => {
    await region.begin([aLimit({ capacity: 100 })])
    await region.share({ id: region.counter(), home: POOL_UNITS / 2, pinned: true })
    await region.write([aLimit({ capacity: 10 })])
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
    await region.check(5)
    await region.time.advanceMs(400)
    expect(await region.check(0)).toMatchObject({ remaining: 2 })
    await region.write([aLimit({ capacity: 50 })])
    await region.time.advanceMs(10_000)
    expect(await region.check(0)).toMatchObject({ remaining: 25 })
  })

  it('B118: takes no more back of a lease than the lowered limit holds', async () => {
    await region.begin([aLimit({ capacity: 100 })])
    expect((await region.lease('one', 40))?.tokens).toBe(40)
    await region.write([aLimit({ capacity: 30 })])
    await region.giveUp('one', 40)
    expect((await region.check(0)).remaining).toBeLessThanOrEqual(30)
    await region.time.advanceMs(1_000)
    expect(await region.check(0)).toMatchObject({ remaining: 30 })
  })

  it('refills at the old rate up to the change and at the new one after it', async () => {
    await region.begin([aLimit({ capacity: 10, burst: 100 })])
    await region.check(100)
    await region.time.advanceMs(1_000)
    await region.write([aLimit({ capacity: 20, burst: 100 })])
    await region.time.advanceMs(1_000)
    expect(await region.check(0)).toMatchObject({ remaining: 30 })
  })

  it('gives a bucket without state no more than it had before a grow of the home part', async () => {
    await region.begin([aLimit({ capacity: 100, home: 400_000 })])
    await region.write([aLimit({ capacity: 100, home: 600_000 })])
    expect(await region.check(0, 'never-seen')).toMatchObject({ remaining: 40 })
    // However often it changes meanwhile.
    await region.write([aLimit({ capacity: 100, home: 600_000, burst: 200 })])
    expect(await region.check(0, 'never-seen')).toMatchObject({ remaining: 40 })
    await region.time.advanceMs(1_000)
    expect(await region.check(0, 'never-seen')).toMatchObject({ remaining: 100 })
  })

  it('does not refill what a counter slept through when it missed two changes', async () => {
    await region.begin([aLimit({ capacity: 10 })])
    await region.check(10)
    await region.time.advanceMs(400)
    await region.write([aLimit({ capacity: 20 })])
    await region.time.advanceMs(400)
    await region.write([aLimit({ capacity: 30 })])
    await region.time.advanceMs(100)
    expect(await region.check(0)).toMatchObject({ remaining: 3 })
  })

  it('B122: of another algorithm or usage epoch begins afresh, without script errors', async () => {
    await region.begin([1, 2, 3].map((id) => aLimit({ id })))
    await region.check(10, 'acme', 1)
    await region.check(10, 'acme', 2)
    await region.share({ id: region.counter(), pinned: true })
    await region.write([aLimit({ algorithm: 'fixed_window', windowMs: 60_000 })])
    expect(await region.check(4)).toMatchObject({ allowed: true, remaining: 6 })
    await region.write([aLimit()])
    expect(await region.check(1)).toMatchObject({ allowed: true, remaining: 9 })
    await region.write([aLimit({ usageEpoch: 1 })])
    expect(await region.check(1)).toMatchObject({ allowed: true, remaining: 9 })
  })

  it('keeps its version when no number changes, so that counters are settled as before', async () => {
    await region.begin([aLimit()])
    const before = region.limit()
    await region.write([aLimit({ name: 'renamed' })])
    expect(region.limit()).toEqual({ ...before, name: 'renamed' })
    const { version } = region
    await region.write([aLimit({ name: 'renamed' })])
    expect(region.version).toBe(version)
  })
})

describe('a check under older policies', () => {
  it('is refused as stale by every slot group and counts nothing', async () => {
    await region.begin([aLimit()])
    const old = region.version
    await region.write([aLimit({ capacity: 20 })])
    for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
      await expect(region.checks.check(region.target(1, key), old)).rejects.toMatchObject({
        code: 'QUOTA_POLICY_STALE',
      })
    }
    expect(await region.redis.keys('c:*')).toEqual([])
  })

  it('is stale too when only the counter knows of the newer version', async () => {
    await region.begin([aLimit()])
    const old = { check: region.target(1), version: region.version }
    const { meta } = groupKeys(old.check.group)
    const before = await region.redis.getBuffer(meta)
    await region.write([aLimit({ capacity: 20 })])
    await region.check(1)
    // Policies are in Redis and read by some before the slot groups say so.
    await region.redis.set(meta, before ?? '')
    await expect(region.checks.check(old.check, old.version)).rejects.toMatchObject({
      code: 'QUOTA_POLICY_STALE',
    })
    expect(await region.check(0)).toMatchObject({ remaining: 9 })
  })

  it('is known by its version even from before Redis lost its data', async () => {
    await region.begin([aLimit({ home: POOL_UNITS })])
    const before = region.version
    await region.time.advanceMs(10)
    await region.begin([aLimit({ home: POOL_UNITS / 2 })])
    expect(region.version).toBeGreaterThan(before)
  })
})
