import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { backoffMs } from '../../../client/egress/backoff.ts'

const options = { baseMs: 200, maxMs: 30_000 }

describe('the backoff', () => {
  it('doubles its bound with each attempt up to the most', () => {
    const bounds = [1, 2, 3, 8, 9, 1_000].map((attempt) => backoffMs(attempt, options, 0.999_999))
    expect(bounds).toEqual([199, 399, 799, 25_599, 29_999, 29_999])
  })

  it('is anything from nothing to its bound, for any attempt', () => {
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    fc.assert(
      fc.property(fc.nat(10_000), random, (attempt, chance) => {
        const waitMs = backoffMs(attempt, options, chance)
        expect(Number.isInteger(waitMs)).toBe(true)
        expect(waitMs).toBeGreaterThanOrEqual(0)
        expect(waitMs).toBeLessThan(options.maxMs)
      }),
    )
    expect(backoffMs(5, options, 0)).toBe(0)
  })
})
