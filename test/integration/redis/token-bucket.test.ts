import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

async function at<T>(ms: number, act: () => Promise<T>): Promise<T> {
  await region.time.set(NOON_US + Math.round(ms * 1_000))
  return act()
}

async function begin(limit: Parameters<typeof aLimit>[0]): Promise<void> {
  await region.time.set(NOON_US)
  await region.begin([aLimit(limit)])
}

describe('a token bucket', () => {
  it('B001: loses no fraction of a token under steady traffic', async () => {
    await begin({ capacity: 10, windowMs: 30_000 })
    const remaining: number[] = []
    for (let second = 0; second <= 10; second++) {
      const decision = await at(second * 1_000, () => region.check())
      expect(decision.allowed).toBe(true)
      remaining.push(decision.remaining)
    }
    expect(remaining).toEqual([9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2])
  })
})
