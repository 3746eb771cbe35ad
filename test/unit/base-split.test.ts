import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  apportion,
  floorOf,
  matchInOrder,
  planTransfers,
  splitBase,
  type Weights,
} from '../../shared/core/base-split.ts'
import type { BaseSplit } from '../../shared/core/policy.ts'
import { POOL_UNITS, shareTokens, WHOLE_TOKEN_SPLIT_MAX } from '../../shared/core/units.ts'

const weights: fc.Arbitrary<Weights> = fc
  .dictionary(fc.stringMatching(/^[a-z]{1,6}$/), fc.integer({ min: 0, max: 1_000 }), {
    minKeys: 1,
    maxKeys: 64,
    noNullPrototype: true,
  })
  .filter((parts) => Object.values(parts).some((weight) => weight > 0))
const capacity = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 1, max: WHOLE_TOKEN_SPLIT_MAX }),
  fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
)

const sum = (parts: Weights): number => Object.values(parts).reduce((all, part) => all + part, 0)
const inTokens = (tokens: number, base: BaseSplit, regions: readonly string[]): number[] =>
  regions.map((region) => shareTokens(tokens, base[region] ?? 0))

describe('a base split', () => {
  it.each([
    [100, { a: 1, b: 1, c: 1 }, [34, 33, 33]],
    [2, { a: 1, b: 1, c: 1, d: 1 }, [1, 1, 0, 0]],
    [1000, { a: 7, b: 2, c: 1 }, [700, 200, 100]],
    [10, { a: 90, b: 9, c: 1 }, [9, 1, 0]],
    [1, { a: 1, b: 1, c: 1 }, [1, 0, 0]],
    [10_000, { a: 60, b: 40 }, [6_000, 4_000]],
    [7, { a: 33.3, b: 33.3, c: 33.4 }, [2, 2, 3]],
  ])('gives %i tokens to %o as %o', (tokens, parts, expected) => {
    expect(inTokens(tokens, splitBase(parts, tokens), Object.keys(parts))).toEqual(expected)
  })

  it('sums to the pool for any weights and capacity', () => {
    fc.assert(
      fc.property(weights, capacity, (parts, tokens) => {
        expect(sum(splitBase(parts, tokens))).toBe(POOL_UNITS)
      }),
    )
  })

  it('of a small capacity is exactly its split in whole tokens', () => {
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: WHOLE_TOKEN_SPLIT_MAX }), (parts, tokens) => {
        const regions = Object.keys(parts)
        const whole = apportion(parts, tokens)
        expect(inTokens(tokens, splitBase(parts, tokens), regions)).toEqual(
          regions.map((region) => whole[region]),
        )
      }),
    )
  })

  it('never passes the capacity in tokens and gives nothing to a weight of zero', () => {
    fc.assert(
      fc.property(weights, capacity, (parts, tokens) => {
        const base = splitBase(parts, tokens)
        const all = Object.values(base).reduce(
          (total, units) => total + BigInt(shareTokens(tokens, units)),
          0n,
        )
        expect(all <= BigInt(tokens)).toBe(true)
        for (const region of Object.keys(base)) expect(parts[region]).toBeGreaterThan(0)
      }),
    )
  })

  it('does not depend on the order in which the regions are written', () => {
    fc.assert(
      fc.property(weights, capacity, (parts, tokens) => {
        const reversed = Object.fromEntries(Object.entries(parts).reverse())
        expect(splitBase(reversed, tokens)).toEqual(splitBase(parts, tokens))
      }),
    )
  })
})

describe('the transfers between two base splits', () => {
  it('are matched in the order of names', () => {
    expect(planTransfers({ a: 60, b: 30, c: 10 }, { b: 10, c: 20, d: 70 })).toEqual([
      { from: 'a', to: 'c', units: 10 },
      { from: 'a', to: 'd', units: 50 },
      { from: 'b', to: 'd', units: 20 },
    ])
  })

  it('turn the one split into the other exactly', () => {
    fc.assert(
      fc.property(weights, weights, capacity, (before, after, tokens) => {
        const [from, to] = [splitBase(before, tokens), splitBase(after, tokens)]
        const moved: Record<string, number> = { ...from }
        for (const transfer of planTransfers(from, to)) {
          moved[transfer.from] = (moved[transfer.from] ?? 0) - transfer.units
          moved[transfer.to] = (moved[transfer.to] ?? 0) + transfer.units
        }
        const left = Object.entries(moved).filter(([, units]) => units !== 0)
        expect(Object.fromEntries(left)).toEqual(to)
      }),
      { numRuns: 60 },
    )
  })

  it('leave no taker behind for a remainder of one unit', () => {
    const givers = [1, 1, 1, 2].map((units, index) => ({ region: `g${index}`, units }))
    const takers = [{ region: 't', units: 5 }]
    expect(matchInOrder(givers, takers).map((transfer) => transfer.units)).toEqual([1, 1, 1, 2])
  })
})

describe('a floor', () => {
  const rule = {
    floorPercent: 2,
    algorithm: 'token_bucket',
    capacity: 1_000,
    burst: 1_000,
  } as const

  it('is a percentage of the base, and at least one token', () => {
    expect(floorOf(600_000, rule)).toBe(12_000)
    expect(floorOf(600_000, { ...rule, burst: 10 })).toBe(100_000)
    expect(floorOf(600_000, { ...rule, algorithm: 'fixed_window', burst: 1 })).toBe(12_000)
  })

  it('is nothing without a base or where the policy wants none, and never more than the base', () => {
    expect(floorOf(0, rule)).toBe(0)
    expect(floorOf(600_000, { ...rule, floorPercent: 0 })).toBe(0)
    expect(floorOf(5, { ...rule, burst: 10 })).toBe(5)
  })

  it('grows by at most what the base grows', () => {
    const base = fc.integer({ min: 0, max: POOL_UNITS })
    fc.assert(
      fc.property(
        base,
        base,
        fc.integer({ min: 0, max: 100 }),
        fc.nat(),
        (one, two, percent, n) => {
          const [low, high] = [Math.min(one, two), Math.max(one, two)]
          const change = { ...rule, floorPercent: percent, burst: n + 1 }
          expect(floorOf(high, change) - floorOf(low, change)).toBeLessThanOrEqual(high - low)
        },
      ),
    )
  })
})
