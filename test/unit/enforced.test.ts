import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ledgerLimits, planeOf } from '../../services/sync/plane.ts'
import { regionPolicies } from '../../services/sync/region-policies.ts'
import { splitBase } from '../../shared/core/base-split.ts'
import { holdingOf, pooledTokens } from '../../shared/core/enforced.ts'
import { shareTokens, TOKENS_MAX } from '../../shared/core/units.ts'
import { aPolicy } from '../support/memory-plane.ts'

const relaxed = (relaxedPercent: number) => ({ mode: 'relaxed', relaxedPercent })

describe('a relaxed limit', () => {
  it('is larger by its per cent, rounded down, and no safe integer is passed', () => {
    const tokens = fc.oneof(
      fc.integer({ min: 0, max: 1_000 }),
      fc.integer({ min: 0, max: TOKENS_MAX }),
    )
    fc.assert(
      fc.property(tokens, fc.integer({ min: 1, max: 100 }), (limit, percent) => {
        const exact = (BigInt(limit) * BigInt(100 + percent)) / 100n
        const most = BigInt(TOKENS_MAX)
        expect(BigInt(pooledTokens(relaxed(percent), limit))).toBe(exact < most ? exact : most)
      }),
    )
  })

  it('is divided as a strict one: the parts of all regions sum to no more than the larger limit', () => {
    const shape = fc.record({
      limit: fc.integer({ min: 1, max: 100_000 }),
      percent: fc.integer({ min: 1, max: 100 }),
      parts: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 }),
    })
    fc.assert(
      fc.property(shape, ({ limit, percent, parts }) => {
        const weights = Object.fromEntries(parts.map((part, index) => [`r${index}`, part]))
        const pooled = pooledTokens(relaxed(percent), limit)
        const shares = Object.values(splitBase(weights, limit)).map((units) =>
          shareTokens(pooled, units),
        )
        expect(shares.reduce((sum, share) => sum + share, 0)).toBeLessThanOrEqual(
          limit * (1 + percent / 100),
        )
      }),
    )
  })

  it('is what the ledger lends of and the scripts hold, while callers are told the limit', () => {
    const policy = {
      ...aPolicy({ capacity: 1_000, burst: 50 }),
      mode: 'relaxed',
      relaxedPercent: 20,
    } as const
    const plane = planeOf([policy], 1, ['us-east-1', 'eu-west-1'])
    expect(ledgerLimits(plane).get(1)).toMatchObject({ capacity: 1_200, burst: 60 })
    const [region] = regionPolicies(plane, new Map([[1, 600_000]]), new Map(), 0)
    expect(region?.limits).toMatchObject([{ capacity: 1_200, burst: 60, nominal: 1_000 }])
  })
})

it('other modes hold exactly the limit', () => {
  expect([pooledTokens({ mode: 'strict' }, 7), pooledTokens({ mode: 'eventual' }, 7)]).toEqual([
    7, 7,
  ])
})

describe('a limit is held', () => {
  const day = { windowMs: 86_400_000 }
  it.each([
    ['strict', { algorithm: 'fixed_window', ...day }, 'stock'],
    ['relaxed', { algorithm: 'fixed_window', ...day }, 'stock'],
    ['eventual', { algorithm: 'fixed_window', ...day }, 'estimate'],
    ['strict', { algorithm: 'token_bucket', ...day }, 'share'],
    ['strict', { algorithm: 'fixed_window', windowMs: 60_000 }, 'share'],
  ])('in mode %s as %o by %s', (mode, limit, holding) => {
    expect(holdingOf({ mode }, limit)).toBe(holding)
  })
})
