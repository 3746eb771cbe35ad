import { describe, expect, it } from 'vitest'
import { type Mutant, runStock } from './model.ts'

const RUNS = 300
/** Most mutants are found within ten; the rarest takes some hundreds. */
const MUTANT_RUNS = 1_000
const STEPS = 600

/** The first seed under which the window was overspent. */
function overspentAt(mutant: Mutant, runs: number): number | null {
  let seed = 1
  while (seed <= runs) {
    try {
      runStock(seed, STEPS, mutant)
    } catch {
      return seed
    }
    seed += 1
  }
  return null
}

describe('the stock of a long window', () => {
  // INV-10
  it('is never overspent, whatever is lost, late, repeated, cut off or forgotten', () => {
    let spent = 0
    for (let seed = 1; seed <= RUNS; seed++) spent += runStock(seed, STEPS, null).spent
    expect(spent).toBeGreaterThan(RUNS * 10)
  })

  it.each<Mutant>([
    'own-memory',
    'before-durable',
    'floors-not-pinned',
    'floors-free',
    'counts-survive-boot',
    'blind-as-fresh',
    'unknown-as-zero',
    'answer-across-sessions',
  ])('is overspent where a rule is left out: %s', (mutant) => {
    const seed = overspentAt(mutant, MUTANT_RUNS)
    expect(seed).not.toBeNull()
  })
})
