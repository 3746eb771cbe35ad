/** Anytime: in no scenario do loans pass a limit, or shares sum to more than it (INV-2, INV-5, INV-6). */
import { describe, expect, it } from 'vitest'
import { runVariant } from './run.ts'
import { SCENARIOS } from './scenarios/all.ts'

/** Long enough for every fault of S11 to happen and show; `npm run sim` runs all to their ends. */
const QUICK_MS = 30_000

/** Attempts that one quick run may cost. */
const isQuick = (name: string): boolean => !/1000 hot keys|10000+ keys/.test(name)

describe.each(SCENARIOS)('$id $title', ({ id, title, variants }) => {
  const chosen = variants.filter(({ isLong, name }) => isLong !== true && isQuick(name))
  it.each(chosen)('$name: excess 0', (variant) => {
    const durationMs = Math.min(QUICK_MS, variant.spec.durationMs)
    const options = { seed: 1, strategy: 'loans', durationMs } as const
    const { outcome } = runVariant({ id, title, variants }, variant, options)
    expect(outcome.violations).toEqual([])
    expect(outcome.excess).toBe(0)
    expect(outcome.attempts).toBeGreaterThan(0)
  })
})
