import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type AllocatedLimit,
  allocate,
  type Claim,
  needOf,
} from '../../../shared/core/allocation/allocator.ts'
import { floorOf, splitBase } from '../../../shared/core/base-split.ts'
import { POOL_UNITS, shareTokens } from '../../../shared/core/units.ts'

const LIMIT: AllocatedLimit = {
  algorithm: 'token_bucket',
  capacity: 1_000,
  windowMs: 1_000,
  burst: 1_000,
}

interface Region {
  readonly weight: number
  readonly demand: number
}

/** Regions a, b, c, … at their base, of a limit with a floor of 2 %. */
function claimsOf(regions: readonly Region[], limit: AllocatedLimit): readonly Claim[] {
  const name = (index: number): string => String.fromCharCode(97 + index)
  const base = splitBase(
    Object.fromEntries(regions.map(({ weight }, index) => [name(index), weight])),
    limit.capacity,
  )
  return regions.map(({ demand }, index) => {
    const share = base[name(index)] ?? 0
    const floor = floorOf(share, { ...limit, floorPercent: 2 })
    return { region: name(index), base: share, floor, share, demand, hungry: false }
  })
}

const targetsOf = (claims: readonly Claim[], limit: AllocatedLimit): number[] =>
  allocate(claims, limit).map(({ target }) => target)
const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)

const limits: fc.Arbitrary<AllocatedLimit> = fc
  .record({
    algorithm: fc.constantFrom('token_bucket' as const, 'fixed_window' as const),
    capacity: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 1_000_000 })),
    objective: fc.constantFrom('max-min' as const, 'proportional' as const),
    windowMs: fc.constantFrom(1_000, 60_000),
  })
  .map((limit) => ({ ...limit, burst: limit.capacity }))
const regions: fc.Arbitrary<readonly Region[]> = fc
  .array(
    fc.record({
      weight: fc.constantFrom(0, 1, 10, 100),
      demand: fc.oneof(
        fc.constant(0),
        fc.double({ min: 0, max: 3_000_000, noNaN: true }),
        fc.double({ min: 0, max: 20, noNaN: true }),
      ),
    }),
    { minLength: 1, maxLength: 9 },
  )
  .filter((list) => list.some(({ weight }) => weight > 0))

describe('targets', () => {
  it.each([
    ['all needs fit, the rest goes half by base and half by need', [540, 360], [599_999, 400_001]],
    ['a region is idle, it keeps its floor and a part of the rest', [0, 500], [156_900, 843_100]],
    ['there is too little for all, it is split by base', [2_000, 2_000], [600_000, 400_000]],
  ])('where %s', (_name, demands, expected) => {
    const list = demands.map((demand, index) => ({ demand, weight: index === 0 ? 60 : 40 }))
    expect(targetsOf(claimsOf(list, LIMIT), LIMIT)).toEqual(expected)
  })

  it('give a region that needs less than its fair part what it needs, and the rest to the others', () => {
    const claims = claimsOf(
      [
        { weight: 50, demand: 100 },
        { weight: 50, demand: 3_000 },
      ],
      LIMIT,
    )
    const [modest = 0, greedy = 0] = targetsOf(claims, LIMIT)
    expect(modest).toBe(needOf(100, LIMIT))
    expect(greedy).toBe(POOL_UNITS - modest)
  })

  it('in proportion to demand give everybody the same part of what it needs, floors aside', () => {
    const limit: AllocatedLimit = { ...LIMIT, objective: 'proportional' }
    const list = [
      { weight: 80, demand: 300 },
      { weight: 20, demand: 1_700 },
      { weight: 0, demand: 0 },
    ]
    const [modest = 0, greedy = 0, idle = 0] = targetsOf(claimsOf(list, limit), limit)
    const part = (target: number, demand: number): number => target / needOf(demand, LIMIT)
    expect(part(modest, 300)).toBeCloseTo(part(greedy, 1_700), 5)
    expect(part(modest, 300)).toBeLessThan(0.8)
    expect(idle).toBe(0)
  })

  it('in proportion to demand are those of max-min while there is enough for all', () => {
    fc.assert(
      fc.property(regions, limits, (list, limit) => {
        const claims = claimsOf(list, limit)
        const needed = sum(
          claims.map(({ demand, floor }) => Math.max(needOf(demand, limit), floor)),
        )
        fc.pre(needed <= POOL_UNITS)
        expect(targetsOf(claims, { ...limit, objective: 'proportional' })).toEqual(
          targetsOf(claims, limit),
        )
      }),
    )
  })

  it('sum exactly to the shares in reach', () => {
    fc.assert(
      fc.property(regions, limits, (list, limit) => {
        const claims = claimsOf(list, limit)
        expect(sum(targetsOf(claims, limit))).toBe(POOL_UNITS)
        const some = claims.slice(1)
        expect(sum(targetsOf(some, limit))).toBe(sum(some.map(({ share }) => share)))
      }),
    )
  })

  it('do not depend on the order of the claims nor on who holds what', () => {
    fc.assert(
      fc.property(regions, limits, fc.nat(), (list, limit, turn) => {
        const claims = claimsOf(list, limit)
        const shares = claims.map(({ share }) => share)
        const place = turn % claims.length
        const turned = [...shares.slice(place), ...shares.slice(0, place)]
        const moved = claims.map((claim, index) => ({ ...claim, share: turned[index] ?? 0 }))
        expect(allocate([...moved].reverse(), limit)).toEqual(allocate(claims, limit))
      }),
    )
  })

  it('leave nobody short while somebody has more than it needs', () => {
    fc.assert(
      fc.property(regions, (list) => {
        const targets = allocate(claimsOf(list, LIMIT), LIMIT)
        const isShort = targets.some(({ target, need }) => target < need - 1)
        const isRich = targets.some(({ target, need }) => target > need + 1)
        expect(isShort && isRich).toBe(false)
      }),
    )
  })

  it('are never below a floor', () => {
    fc.assert(
      fc.property(regions, (list) => {
        const claims = claimsOf(list, LIMIT)
        const targets = targetsOf(claims, LIMIT)
        for (const [index, { floor }] of claims.entries()) {
          expect(targets[index]).toBeGreaterThanOrEqual(floor)
        }
      }),
    )
  })

  it('raise nobody by more than its demand rose, when all are short', () => {
    const short = fc.array(
      fc.record({
        weight: fc.constantFrom(1, 10),
        demand: fc.double({ min: 600, max: 2_000, noNaN: true }),
      }),
      { minLength: 3, maxLength: 5 },
    )
    fc.assert(
      fc.property(short, fc.double({ min: 1, max: 500, noNaN: true }), (list, more) => {
        const claims = claimsOf(list, LIMIT)
        const raised = claims.map((claim, index) =>
          index === 0 ? { ...claim, demand: claim.demand + more } : claim,
        )
        const [before, after] = [targetsOf(claims, LIMIT), targetsOf(raised, LIMIT)]
        const rise = needOf(list[0]?.demand ?? 0, LIMIT)
        const rose = needOf((list[0]?.demand ?? 0) + more, LIMIT) - rise
        expect((after[0] ?? 0) - (before[0] ?? 0)).toBeLessThanOrEqual(rose + list.length)
        for (let index = 1; index < list.length; index++) {
          expect(after[index]).toBeLessThanOrEqual((before[index] ?? 0) + 1)
        }
      }),
    )
  })

  it('of a small window are whole tokens, and together all of them', () => {
    const limit: AllocatedLimit = {
      algorithm: 'fixed_window',
      capacity: 10,
      windowMs: 60_000,
      burst: 10,
    }
    const claims = claimsOf(
      [
        { weight: 6, demand: 0.11 },
        { weight: 4, demand: 0.055 },
        { weight: 0, demand: 0.01 },
      ],
      limit,
    )
    const tokens = targetsOf(claims, limit).map((units) => shareTokens(10, units))
    expect(sum(tokens)).toBe(10)
    expect(tokens.every((count) => count >= 1)).toBe(true)
  })

  it('give one token each to as many regions as there are tokens, the most demanding first', () => {
    const limit: AllocatedLimit = { ...LIMIT, capacity: 3, windowMs: 60_000, burst: 3 }
    const claims = claimsOf(
      [0.01, 0.02, 0.03, 0.04, 0.05].map((demand) => ({ demand, weight: 1 })),
      limit,
    ).map((claim) => ({ ...claim, base: 0, floor: 0 }))
    const tokens = targetsOf(claims, limit).map((units) => shareTokens(3, units))
    expect(tokens).toEqual([0, 0, 1, 1, 1])
  })
})

describe('a need', () => {
  it('is nothing without demand, at least a token with it, and never more than the pool', () => {
    const limit = { ...LIMIT, capacity: 5, windowMs: 60_000, burst: 5 }
    expect(needOf(0, limit)).toBe(0)
    expect(needOf(0.0001, limit)).toBe(200_000)
    expect(needOf(1e9, limit)).toBe(POOL_UNITS)
  })

  it('holds some safety stock, more of it for small demands', () => {
    const stock = (demand: number): number => needOf(demand, LIMIT) / (demand * 1_000) - 1
    expect(stock(900)).toBeCloseTo(0.01, 3)
    expect(stock(20)).toBeGreaterThan(0.02)
  })
})
