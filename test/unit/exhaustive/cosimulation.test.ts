import { describe, expect, it } from 'vitest'
import { LENDER_WAIT_MS, LOAN_TTL_MS } from '../../../shared/core/ledger/constants.ts'
import { cosimulate } from '../../exhaustive/cosimulation.ts'
import { type CosimulationOptions, Disagreement } from '../../exhaustive/lanes.ts'

/** Enough that the rarest move, a recovery that ends early, comes many times: another workload must not lose it. */
const SEEDS = 12
const FOR_MS = 60_000

/** Seconds on an idle machine. */
const TIMEOUT_MS = 60_000

function disagreements(model: NonNullable<CosimulationOptions['model']>): readonly string[] {
  const found: string[] = []
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      cosimulate({ seed, regions: 2, forMs: FOR_MS, model })
    } catch (err) {
      if (!(err instanceof Disagreement)) throw err
      found.push(err.message)
    }
  }
  return found
}

describe("the product's ledger beside the model of the rules", () => {
  it(
    'does nothing that no rule allows, and uses no unit that the model does not allow',
    () => {
      const totals: Record<string, number> = {}
      for (let seed = 1; seed <= SEEDS; seed++) {
        const moves = cosimulate({ seed, regions: 2 + (seed % 2), forMs: FOR_MS })
        for (const [move, count] of Object.entries(moves)) {
          totals[move] = (totals[move] ?? 0) + count
        }
      }
      for (const [move, count] of Object.entries(totals)) expect(count, move).toBeGreaterThan(0)
    },
    TIMEOUT_MS,
  )

  it(
    'would be seen to take loans back too early',
    () => {
      const seen = disagreements({ lenderWait: LENDER_WAIT_MS + 2_000 })
      expect(seen.some((what) => what.includes('takes loans back'))).toBe(true)
    },
    TIMEOUT_MS,
  )

  it(
    'would be seen to use loans for too long',
    () => {
      const seen = disagreements({ ttl: LOAN_TTL_MS - 2_000 })
      expect(seen.some((what) => what.includes('uses'))).toBe(true)
    },
    TIMEOUT_MS,
  )
})
