/** A quick part of `npm run sim -- --all --check`: one seed of what tells within seconds. */
import { describe, expect, it } from 'vitest'
import { runVariant } from './run.ts'
import { SCENARIOS } from './scenarios/all.ts'
import { missesOf } from './targets.ts'

const QUICK = /^(S0 (balanced|skew 900)|S6 700\/700\/0, floor 2|S7 window .*skew (0.75|1), floor 0)/

const chosen = SCENARIOS.flatMap((scenario) =>
  scenario.variants
    .filter(({ name, target }) => target !== undefined && QUICK.test(`${scenario.id} ${name}`))
    .map((variant) => ({ scenario, variant, name: `${scenario.id} ${variant.name}` })),
)

describe('targets', () => {
  it.each(chosen)('of $name are reached', ({ scenario, variant }) => {
    const options = { seed: 1, strategy: 'loans', durationMs: variant.spec.durationMs } as const
    const { outcome } = runVariant(scenario, variant, options)
    expect(missesOf(outcome, variant.target)).toEqual([])
  })

  it('name what was missed, and by how much', () => {
    const [first] = chosen
    if (first === undefined) throw new Error('nothing is chosen')
    const options = { seed: 1, strategy: 'loans', durationMs: 5_000 } as const
    const { outcome } = runVariant(first.scenario, first.variant, options)
    const poor = { ...outcome, excess: 3, utilisation: 0.5, convergenceMs: null }
    expect(missesOf(poor, { utilisation: 0.98, convergenceMs: 620 })).toEqual([
      'excess is 3, not 0',
      'utilisation is 0.5000, not 0.98',
      'convergence takes Infinity ms, not 620',
    ])
  })
})
