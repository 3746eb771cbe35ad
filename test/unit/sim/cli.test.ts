import { describe, expect, it } from 'vitest'
import { drawRun } from '../../simulation/sim/cli/drawing.ts'
import { parseOptions, UsageError } from '../../simulation/sim/cli/options.ts'
import { headOf, lineOf } from '../../simulation/sim/cli/report.ts'
import { runVariant } from '../../simulation/sim/run.ts'
import { SCENARIOS } from '../../simulation/sim/scenarios/all.ts'

describe('the command line', () => {
  it('runs loans over all scenarios from seed 1 when nothing is said', () => {
    expect(parseOptions([])).toMatchObject({ scenarios: null, strategies: ['loans'], seed: 1 })
  })

  it('takes lists, numbers and a number of steps', () => {
    expect(parseOptions(['--scenario', 'S3,S9', '--seed', '4', '--seconds', '9'])).toMatchObject({
      scenarios: ['S3', 'S9'],
      seed: 4,
      durationMs: 9_000,
    })
    expect(parseOptions(['--soak']).soakSteps).toBe(10_000_000)
    expect(parseOptions(['--soak', '500']).soakSteps).toBe(500)
    expect(parseOptions(['--compare']).strategies).toHaveLength(7)
  })

  it.each([
    ['--check', '--seconds', '5'],
    ['--seeds', '0'],
    ['--strategy', 'magic'],
    ['--seed', 'one'],
    ['--unknown'],
    ['stray'],
  ])('refuses %s %s with a message', (...args) => {
    expect(() => parseOptions(args)).toThrow(UsageError)
  })
})

describe('what is printed', () => {
  it('lines figures up under their heads', () => {
    const [scenario] = SCENARIOS
    const [variant] = scenario?.variants ?? []
    if (scenario === undefined || variant === undefined) throw new Error('no scenario')
    const options = { seed: 1, strategy: 'loans', durationMs: 3_000 } as const
    const { outcome, meter } = runVariant(scenario, variant, options)
    expect(lineOf(outcome, false)).toHaveLength(headOf('S0', scenario.title, false).length - 1)
    const drawing = drawRun('a < b', meter)
    expect(drawing).toContain('a &lt; b')
    expect(drawing.match(/class="share" d="M64/g)).toHaveLength(3)
    expect(drawing).not.toMatch(/NaN|undefined|Infinity/)
  })

  it('names each scenario and variant once', () => {
    const names = SCENARIOS.flatMap(({ id, variants }) =>
      variants.map(({ name }) => `${id} ${name}`),
    )
    expect(new Set(names).size).toBe(names.length)
    const ids = SCENARIOS.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
  })
})
