import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { allocate, type Claim } from '../../../shared/core/allocation/allocator.ts'
import { isAnyShort, planMoves } from '../../../shared/core/allocation/moves.ts'
import { splitBase } from '../../../shared/core/base-split.ts'

const LIMIT = { algorithm: 'token_bucket', capacity: 1_000, windowMs: 1_000, burst: 1_000 } as const

const aClaim = (region: string, change: Partial<Claim>): Claim => ({
  region,
  base: 500_000,
  floor: 10_000,
  share: 500_000,
  demand: 0,
  hungry: false,
  ...change,
})
const planOf = (claims: readonly Claim[]) => planMoves(claims, allocate(claims, LIMIT))

describe('units', () => {
  it('stay where they are while nobody is short', () => {
    const claims = [aClaim('a', { demand: 10 }), aClaim('b', { demand: 450 })]
    expect(planOf(claims).transfers).toEqual([])
    expect(isAnyShort(claims, LIMIT)).toBe(false)
  })

  it('go from who has more than its target to who is short', () => {
    const { transfers, short, donors } = planOf([
      aClaim('a', { demand: 100 }),
      aClaim('b', { demand: 1_500, hungry: true }),
    ])
    expect(transfers).toEqual([{ from: 'a', to: 'b', units: expect.any(Number) }])
    expect(transfers[0]?.units).toBeGreaterThan(390_000)
    expect([short, donors]).toEqual([['b'], ['a']])
  })

  it('stay where they are for a surplus within the noise, a larger one while nobody denies', () => {
    const claims = (share: number, hungry: boolean) => [
      aClaim('a', { demand: 480, share }),
      aClaim('b', { demand: 530, share: 1_000_000 - share, hungry }),
    ]
    expect(planOf(claims(489_000, true)).transfers).toEqual([])
    expect(planOf(claims(510_000, true)).transfers).toHaveLength(1)
    expect(planOf(claims(510_000, false)).transfers).toEqual([])
    expect(planOf(claims(540_000, false)).transfers).toHaveLength(1)
  })

  it('bring everybody to its target when all do their part', () => {
    const region = fc.record({
      weight: fc.integer({ min: 1, max: 9 }),
      demand: fc.integer({ min: 0, max: 2_000 }),
      hungry: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(region, { minLength: 2, maxLength: 8 }), (regions) => {
        const named = regions.map((one, index) => ({ ...one, region: `r${index}` }))
        const base = splitBase(
          Object.fromEntries(named.map(({ region: name, weight }) => [name, weight])),
          1_000,
        )
        const claims = named.map(({ region: name, demand, hungry }) => {
          const share = base[name] ?? 0
          return aClaim(name, { base: share, share, floor: Math.ceil(share / 50), demand, hungry })
        })
        const targets = new Map(allocate(claims, LIMIT).map((one) => [one.region, one.target]))
        const shares = new Map(claims.map((claim) => [claim.region, claim.share]))
        const { transfers } = planOf(claims)
        for (const { from, to, units } of transfers) {
          shares.set(from, (shares.get(from) ?? 0) - units)
          shares.set(to, (shares.get(to) ?? 0) + units)
        }
        for (const { from, to } of transfers) {
          expect(shares.get(from)).toBeGreaterThanOrEqual(targets.get(from) ?? 0)
          expect(shares.get(to)).toBeLessThanOrEqual(targets.get(to) ?? 0)
        }
      }),
    )
  })
})
