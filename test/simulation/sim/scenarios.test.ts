/** Anytime: in no scenario do loans pass a limit, or shares sum to more than it (INV-2, INV-5, INV-6, INV-10). */
import { describe, expect, it } from 'vitest'
import { runVariant } from './run.ts'
import { SCENARIOS } from './scenarios/all.ts'

/** Long enough for every fault of S11 to happen and show; `npm run sim -- --all` runs all to their ends. */
const QUICK_MS = 30_000

/** Faults are worth each variant; of loads two tell what more would. */
const FAULTS: ReadonlySet<string> = new Set(['S9', 'S11', 'S12', 'S16', 'S21'])
const LOADS_CHOSEN = 2

/** Many regions or keys cost minutes and hold no other rule. */
const isQuick = (name: string): boolean => !/\d{3,} hot keys|\d{4,} keys|\d{2,} regions/.test(name)

/** Callers of a day or of a few a minute take no time, and show nothing within seconds. */
const isSlow = (name: string): boolean => /stock|eventual/.test(name)

const chosen = SCENARIOS.map(({ variants, ...scenario }) => {
  const quick = variants.filter(({ isLong, name }) => isLong !== true && isQuick(name))
  const loads = FAULTS.has(scenario.id) ? quick : quick.slice(0, LOADS_CHOSEN)
  return { ...scenario, variants: [...loads, ...quick.filter(({ name }) => isSlow(name))] }
}).filter(({ variants }) => variants.length > 0)

describe.each(chosen)('$id $title', ({ id, title, variants }) => {
  it.each(variants)('$name: excess 0', (variant) => {
    const { durationMs: wholeMs } = variant.spec
    const durationMs = isSlow(variant.name) ? wholeMs : Math.min(QUICK_MS, wholeMs)
    const options = { seed: 1, strategy: 'loans', durationMs } as const
    const { outcome } = runVariant({ id, title, variants }, variant, options)
    expect(outcome.violations).toEqual([])
    expect(outcome.excess).toBe(0)
    expect(outcome.attempts).toBeGreaterThan(0)
  })
})
