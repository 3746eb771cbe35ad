import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Boot, Share } from '../../../shared/core/algorithms/algorithm.ts'
import { stampLimit } from '../../../shared/core/algorithms/stamp-limit.ts'
import { type BucketState, tokenBucket } from '../../../shared/core/algorithms/token-bucket.ts'
import type { RegionLimit, RegionLimitSpec } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { PLAIN_LIMIT } from '../../support/region-policy.ts'

const NOW_US = 1_793_448_000_000_000
const BOOT: Boot = { startUs: 0, recovering: false }

function spec(change: Partial<RegionLimitSpec> = {}): RegionLimitSpec {
  const capacity = change.capacity ?? 10
  return {
    id: 1,
    name: 'limit',
    algorithm: 'token_bucket',
    ...PLAIN_LIMIT,
    usageEpoch: 0,
    capacity,
    windowMs: 1_000,
    burst: capacity,
    home: POOL_UNITS,
    ...change,
  }
}

function limit(change: Partial<RegionLimitSpec> = {}): RegionLimit {
  return stampLimit(undefined, spec(change), { version: 1, nowUs: NOW_US, boot: BOOT })
}

function settle(
  state: BucketState | null,
  of: RegionLimit,
  nowUs: number,
  share: Share | null = null,
) {
  return tokenBucket.settle(state, { limit: of, share, boot: BOOT, nowUs })
}

const anyLimit = fc
  .record({
    capacity: fc.oneof(
      fc.integer({ min: 1, max: 1_000 }),
      fc.maxSafeInteger().filter((n) => n > 0),
    ),
    windowMs: fc.integer({ min: 1, max: 31_622_400_000 }),
    home: fc.integer({ min: 1, max: POOL_UNITS }),
  })
  .map((change) => limit(change))

describe('a token bucket', () => {
  it('is full again, whatever was taken, once its state may expire', () => {
    fc.assert(
      fc.property(anyLimit, fc.nat(), (of, taken) => {
        const full = settle(null, of, NOW_US)
        const empty = tokenBucket.take(full, Math.min(taken, full.remaining))
        // An expiry is renewed once a quarter of it has passed, so three quarters always remain.
        const goneUs = NOW_US + tokenBucket.keepMs(empty) * 750
        const again = settle(tokenBucket.store(empty), of, goneUs)
        expect(again.remaining).toBe(settle(null, of, goneUs).remaining)
      }),
    )
  })

  it('never holds more than its share and never less than nothing', () => {
    const steps = fc.array(
      fc.record({ us: fc.integer({ min: -2e6, max: 2e9 }), cost: fc.nat({ max: 20 }) }),
      { maxLength: 40 },
    )
    fc.assert(
      fc.property(anyLimit, steps, (of, history) => {
        let state: BucketState | null = null
        let nowUs = NOW_US
        for (const { us, cost } of history) {
          nowUs += us
          const settled = settle(state, of, nowUs)
          expect(settled.remaining).toBeGreaterThanOrEqual(0)
          expect(settled.remaining).toBeLessThanOrEqual(settled.most)
          if (cost <= settled.remaining) state = tokenBucket.store(tokenBucket.take(settled, cost))
        }
      }),
    )
  })

  it('admits no more in any stretch than its burst and its rate allow', () => {
    const gaps = fc.array(fc.integer({ min: 0, max: 300_000 }), { minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 50 }), (history, capacity) => {
        const of = limit({ capacity })
        const taken: { readonly atUs: number; readonly tokens: number }[] = []
        let state: BucketState | null = null
        let nowUs = NOW_US
        for (const gap of history) {
          nowUs += gap
          const settled = settle(state, of, nowUs)
          const tokens = settled.remaining
          state = tokenBucket.store(tokenBucket.take(settled, tokens))
          taken.push({ atUs: nowUs, tokens })
        }
        for (const [from, { atUs }] of taken.entries()) {
          let sum = 0
          for (const later of taken.slice(from)) {
            sum += later.tokens
            const most = capacity + (capacity * (later.atUs - atUs)) / 1e6
            expect(sum).toBeLessThanOrEqual(most + 1e-6)
          }
        }
      }),
    )
  })

  it('refills in many small steps what it refills in one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000 }),
        fc.integer({ min: 1, max: 500 }),
        (ms, parts) => {
          const of = limit({ capacity: 7, windowMs: 13_000, burst: 1_000 })
          let state: BucketState = { version: 1, whole: 0, fraction: 0, lastUs: NOW_US }
          const steps = parts * 3
          for (let step = 1; step <= steps; step++) {
            state = tokenBucket.store(settle(state, of, NOW_US + step * ms * 1_000))
          }
          const once = settle(
            { version: 1, whole: 0, fraction: 0, lastUs: NOW_US },
            of,
            NOW_US + steps * ms * 1_000,
          )
          const gap = once.remaining + once.fraction - state.whole - state.fraction
          expect(Math.abs(gap)).toBeLessThan(1e-6)
        },
      ),
    )
  })
})

describe('the idle level of a bucket across changes', () => {
  const change = fc.record({
    capacity: fc.integer({ min: 1, max: 1_000 }),
    burst: fc.integer({ min: 1, max: 1_000 }),
    windowMs: fc.constantFrom(100, 1_000, 10_000),
    home: fc.integer({ min: 0, max: POOL_UNITS }),
    afterMs: fc.nat({ max: 30_000 }),
  })

  it('is never above that of a bucket whose state was kept and never used', () => {
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
        let nowUs = NOW_US
        let of = limit()
        let kept = tokenBucket.store(settle(null, of, nowUs))
        for (const [index, { afterMs, ...numbers }] of changes.entries()) {
          kept = tokenBucket.store(settle(kept, of, nowUs))
          nowUs += afterMs * 1_000
          of = stampLimit(of, spec(numbers), { version: index + 2, nowUs, boot: BOOT })
          const absent = settle(null, of, nowUs)
          const present = settle(kept, of, nowUs)
          expect(absent.remaining + absent.fraction).toBeLessThanOrEqual(
            present.remaining + present.fraction + 1e-6,
          )
          kept = tokenBucket.store(present)
        }
      }),
    )
  })

  it('is never above that of a state that expired after several quick edits', () => {
    const edit = fc.record({
      rate: fc.integer({ min: 1, max: 100 }),
      burst: fc.integer({ min: 1, max: 5_000 }),
      part: fc.double({ min: 0, max: 0.4, noNaN: true }),
    })
    fc.assert(
      fc.property(fc.array(edit, { minLength: 2, maxLength: 4 }), fc.nat(9e6), (edits, extraUs) => {
        let of = limit({ capacity: 100, burst: 100 })
        let kept = tokenBucket.store(tokenBucket.take(settle(null, of, NOW_US), 100))
        const keepUs = tokenBucket.keepMs(settle(kept, of, NOW_US)) * 750
        let nowUs = NOW_US
        for (const [index, { rate, burst, part }] of edits.entries()) {
          nowUs += Math.floor((part * keepUs) / edits.length)
          kept = tokenBucket.store(settle(kept, of, nowUs))
          // Slower with each edit: a rise may bring the old burst on top, within the new numbers.
          const numbers = { capacity: Math.min(rate, of.capacity), burst }
          of = stampLimit(of, spec(numbers), { version: index + 2, nowUs, boot: BOOT })
          kept = tokenBucket.store(settle(kept, of, nowUs))
        }
        const goneUs = Math.max(nowUs, NOW_US + keepUs) + extraUs
        const absent = settle(null, of, goneUs)
        const present = settle(kept, of, goneUs)
        expect(absent.remaining + absent.fraction).toBeLessThanOrEqual(
          present.remaining + present.fraction + 1e-6,
        )
      }),
      { numRuns: 500 },
    )
  })

  it('is never above that of a state that expired meanwhile, however the bucket was drained', () => {
    fc.assert(
      fc.property(
        change,
        fc.nat({ max: 20_000 }),
        fc.nat({ max: 60_000 }),
        (next, beforeMs, extraMs) => {
          const of = limit({ capacity: 10, burst: 100 })
          const drained = tokenBucket.take(settle(null, of, NOW_US), 100)
          const state = tokenBucket.store(drained)
          const goneMs = tokenBucket.keepMs(drained) * 0.75 + 500
          const changedUs = NOW_US + Math.min(beforeMs, goneMs) * 1_000
          const { afterMs: _, ...numbers } = next
          const after = stampLimit(of, spec({ ...numbers, home: POOL_UNITS }), {
            version: 2,
            nowUs: changedUs,
            boot: BOOT,
          })
          const nowUs = NOW_US + (goneMs + extraMs) * 1_000
          const absent = settle(null, after, nowUs)
          const present = settle(state, after, nowUs)
          const oldRate = of.capacity / of.windowMs
          const newRate = after.capacity / after.windowMs
          // Where the rate rises the old burst may come on top: it stays within the new burst and rate.
          const grace = newRate >= oldRate ? of.burst : 0
          expect(absent.remaining).toBeLessThanOrEqual(present.remaining + grace + 1)
        },
      ),
    )
  })
})
