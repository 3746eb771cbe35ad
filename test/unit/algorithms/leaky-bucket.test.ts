import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { leakyBucket } from '../../../shared/core/algorithms/leaky-bucket.ts'
import { type BucketState, tokenBucket } from '../../../shared/core/algorithms/token-bucket.ts'
import type { RegionLimit } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

const NOON_US = 1_793_448_000_000_000
const BOOT = { startUs: 0, recovering: false }

function at(state: BucketState | null, limit: RegionLimit, nowUs: number) {
  return leakyBucket.settle(state, { limit, share: null, boot: BOOT, nowUs })
}

describe('a leaky bucket', () => {
  it('admits exactly what GCRA admits, worked out in whole numbers', () => {
    const steps = fc.array(
      fc.record({ us: fc.nat({ max: 400_000 }), cost: fc.integer({ min: 1, max: 3 }) }),
      { minLength: 1, maxLength: 80 },
    )
    const numbers = fc.record({
      capacity: fc.integer({ min: 1, max: 40 }),
      windowMs: fc.integer({ min: 1, max: 5_000 }),
      burst: fc.integer({ min: 1, max: 12 }),
    })
    fc.assert(
      fc.property(numbers, steps, ({ capacity, windowMs, burst }, history) => {
        const idle = { tokens: burst, atUs: 0 }
        const limit = aRegionLimit({ algorithm: 'leaky_bucket', capacity, windowMs, burst, idle })
        // Times in capacity-ths of a microsecond, in which an interval is whole.
        const interval = BigInt(windowMs) * 1_000n
        let arrival = 0n
        let state: BucketState | null = null
        let nowUs = NOON_US
        for (const { us, cost } of history) {
          nowUs += us
          const now = BigInt(nowUs) * BigInt(capacity)
          const next = (arrival > now ? arrival : now) + BigInt(cost) * interval
          const isDue = next - BigInt(burst) * interval <= now
          const settled = at(state, limit, nowUs)
          expect(cost <= settled.remaining).toBe(isDue)
          if (!isDue) continue
          arrival = next
          state = leakyBucket.store(leakyBucket.take(settled, cost))
        }
      }),
    )
  })

  it('holds what a token bucket of the same numbers holds', () => {
    const steps = fc.array(fc.record({ us: fc.nat({ max: 4e6 }), cost: fc.nat({ max: 9 }) }))
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 50 }), (history, capacity) => {
        const idle = { tokens: capacity, atUs: 0 }
        const limit = aRegionLimit({ algorithm: 'leaky_bucket', capacity, idle })
        let [leaky, bucket]: [BucketState | null, BucketState | null] = [null, null]
        let nowUs = NOON_US
        for (const { us, cost } of history) {
          nowUs += us
          const one = at(leaky, limit, nowUs)
          const two = tokenBucket.settle(bucket, { limit, share: null, boot: BOOT, nowUs })
          expect(one.remaining + one.fraction).toBeCloseTo(two.remaining + two.fraction, 6)
          if (cost === 0 || cost > Math.min(one.remaining, two.remaining)) continue
          leaky = leakyBucket.store(leakyBucket.take(one, cost))
          bucket = tokenBucket.store(tokenBucket.take(two, cost))
        }
      }),
    )
  })

  it('owes nothing where its limit changed twice while it slept: it is empty, and a token is due one interval later', () => {
    // Five were taken of what an instant long past had, under numbers that nobody remembers.
    const state = { version: 1, whole: -5, fraction: 0, lastUs: NOON_US - 50_000_000 }
    const past = {
      previous: { version: 2, capacity: 5, windowMs: 1_000, burst: 5, home: POOL_UNITS },
    }
    const limit = aRegionLimit({
      algorithm: 'leaky_bucket',
      version: 3,
      changedAtUs: NOON_US - 1,
      ...past,
    })
    const settled = at(state, limit, NOON_US)
    expect([settled.remaining, leakyBucket.waitMs(settled, 1)]).toEqual([0, 100])
    const healed = leakyBucket.store(leakyBucket.heal(settled))
    expect(at(healed, limit, NOON_US + 100_000).remaining).toBe(1)
  })
})
