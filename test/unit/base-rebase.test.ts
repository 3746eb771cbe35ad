import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { proposeBase, REBASE_STEP, type RebaseInput } from '../../shared/core/base-rebase.ts'
import { floorOf, splitBase } from '../../shared/core/base-split.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'

const LIMIT = { algorithm: 'token_bucket', capacity: 100_000, burst: 100_000 } as const

function anInput(change: Partial<RebaseInput> = {}): RebaseInput {
  const split = { a: 50, b: 50 }
  const base = splitBase(split, LIMIT.capacity)
  return { ...LIMIT, floorPercent: 2, split, base, demand: {}, present: ['a', 'b'], ...change }
}

describe('a base split under a demand of another mix', () => {
  it('moves towards it by at most a fifth of the pool', () => {
    expect(proposeBase(anInput({ demand: { a: 10, b: 90 } }))).toEqual({ a: 300_000, b: 700_000 })
  })

  it('arrives, and then stays', () => {
    let base = anInput().base
    let steps = 0
    for (;;) {
      const next = proposeBase(anInput({ base, demand: { a: 0, b: 100 } }))
      if (next === null) break
      base = next
      steps += 1
    }
    expect(steps).toBeLessThan(5)
    expect(base['b']).toBeGreaterThan(890_000)
    // What the operator gave it, it keeps the floor of.
    expect(base['a']).toBeGreaterThanOrEqual(floorOf(500_000, { ...LIMIT, floorPercent: 2 }))
  })

  it.each([
    ['differs by no more than a tenth of the pool', { a: 41, b: 59 }],
    ['is nothing', {}],
  ])('stays where it is when that %s', (_what, demand) => {
    expect(proposeBase(anInput({ demand }))).toBeNull()
  })

  it('gives regions without a part what they need, and none that are away', () => {
    const next = proposeBase(anInput({ demand: { c: 100, d: 100 }, present: ['a', 'b', 'c'] }))
    expect(next?.['c']).toBe(200_000)
    expect(next).not.toHaveProperty('d')
  })

  it('sums to the pool, moves no region further than a step, and leaves floors, whatever it is', () => {
    const regions = ['a', 'b', 'c', 'd']
    const weights = fc.record(
      Object.fromEntries(regions.map((region) => [region, fc.nat({ max: 1_000 })])),
    )
    const capacity = fc.constantFrom(100, 10_000, 1_000_000)
    fc.assert(
      fc.property(weights, weights, weights, capacity, (split, from, demand, tokens) => {
        fc.pre(Object.values(split).some(Boolean) && Object.values(from).some(Boolean))
        const base = splitBase(from, tokens)
        const rule = { ...LIMIT, capacity: tokens, burst: tokens, floorPercent: 2 }
        const next = proposeBase({ ...rule, split, base, demand, present: regions })
        if (next === null) return
        expect(Object.values(next).reduce((sum, units) => sum + units, 0)).toBe(POOL_UNITS)
        const given = splitBase(split, tokens)
        // Whole tokens are rounded to the next one.
        const token = POOL_UNITS / Math.min(tokens, 10_000) + 64
        for (const region of regions) {
          const [before, after] = [base[region] ?? 0, next[region] ?? 0]
          expect(Math.abs(after - before)).toBeLessThanOrEqual(REBASE_STEP * POOL_UNITS + token)
          const floor = Math.min(before, floorOf(given[region] ?? 0, rule))
          expect(after).toBeGreaterThanOrEqual(floor - token)
        }
      }),
    )
  })
})
