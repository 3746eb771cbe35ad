/** The command `npm run sim`. */
import { writeFileSync } from 'node:fs'
import { drawRun } from './cli/drawing.ts'
import { HELP, type Options, parseOptions, UsageError } from './cli/options.ts'
import { createProgress, type Progress } from './cli/progress.ts'
import { headOf, jsonOf, lineOf } from './cli/report.ts'
import { isSound, merged, type Outcome, runVariant } from './run.ts'
import { SCENARIOS } from './scenarios/all.ts'
import type { Scenario, Variant } from './scenarios/scenario.ts'
import { soak } from './soak/soak.ts'
import { STRICT, type StrategyName } from './strategies/all.ts'
import { missesOf, seedsFor, targetsOf } from './targets.ts'

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2))
  if (options.isHelp) {
    console.log(HELP)
    return 0
  }
  if (options.soakSteps !== null) return (await soakFor(options.soakSteps, options.seed)) ? 0 : 1
  return runAll(options) ? 0 : 1
}

async function soakFor(steps: number, seed: number): Promise<boolean> {
  const report = await soak(steps, seed)
  const text = (count: number): string => count.toLocaleString('en')
  console.log(
    `${text(report.steps)} steps of the protocol in ${text(report.worlds)} worlds, ` +
      `${text(report.attempts)} checks, ${report.failures.length} worlds broken (first seed ${seed})`,
  )
  return report.failures.length === 0
}

/** Runs what was asked for; false when a strict strategy passed a limit, or a target was missed. */
function runAll(options: Options): boolean {
  const chosen = choose(options)
  const plans = chosen.map(({ scenario, variants }) => ({
    scenario,
    runs: plan(variants, options),
  }))
  const runs = plans.flatMap((one) => one.runs)
  const seeds = runs.reduce((sum, { variant }) => sum + seedsOf(variant, options).length, 0)
  const progress = createProgress(seeds)
  const tally: Tally = { targets: 0, missed: 0, isSound: true, draw: null }
  for (const one of plans) {
    progress.clear()
    if (!options.isJson) {
      console.log(headOf(one.scenario.id, one.scenario.title, options.isCompare))
    }
    for (const run of one.runs) runOne({ ...run, scenario: one.scenario }, options, progress, tally)
  }
  if (options.plot !== null && tally.draw !== null) writeFileSync(options.plot, tally.draw())
  if (options.isCheck) {
    console.error(`\n${tally.targets - tally.missed} of ${tally.targets} targets reached`)
  }
  return tally.isSound && tally.missed === 0
}

interface Tally {
  targets: number
  missed: number
  isSound: boolean
  /** Draws the last run. */
  draw: (() => string) | null
}

interface Run {
  readonly scenario: Scenario
  readonly variant: Variant
  readonly strategy: StrategyName
}

/** One variant under one strategy, for each of its seeds. */
function runOne(run: Run, options: Options, progress: Progress, tally: Tally): void {
  const { scenario, variant, strategy } = run
  const outcomes = seedsOf(variant, options).map((seed) => {
    progress.begin(`${scenario.id} ${variant.name}`)
    const durationMs = options.durationMs ?? variant.spec.durationMs
    const { outcome, meter } = runVariant(scenario, variant, { seed, strategy, durationMs })
    progress.end()
    tally.draw = () => drawRun(`${scenario.id} ${variant.name}, ${strategy}, seed ${seed}`, meter)
    return outcome
  })
  say(outcomes, options)
  tally.isSound &&= outcomes.every(isSound) || !STRICT.includes(strategy)
  if (options.isCheck) judge(variant, outcomes, tally)
}

/** Says which targets a variant missed, and counts. */
function judge(variant: Variant, outcomes: readonly Outcome[], tally: Tally): void {
  const [first, ...others] = outcomes
  if (first === undefined) return
  const misses = missesOf(merged([first, ...others]), variant.target)
  for (const miss of misses) console.error(`    MISSED: ${miss} (${outcomes.length} seeds)`)
  tally.targets += targetsOf(variant.target)
  tally.missed += misses.length
}

function choose(options: Options) {
  const ids = options.scenarios
  for (const id of ids ?? []) {
    if (!SCENARIOS.some((scenario) => scenario.id === id)) {
      const known = SCENARIOS.map((scenario) => `${scenario.id} ${scenario.title}`).join('\n  ')
      throw new UsageError(`no scenario is called ${id}; there are\n  ${known}`)
    }
  }
  const isChosen = (variant: Variant): boolean =>
    (options.isLong || variant.isLong !== true) &&
    (options.variant === null || variant.name.includes(options.variant))
  return SCENARIOS.filter((scenario) => ids === null || ids.includes(scenario.id))
    .map((scenario: Scenario) => ({ scenario, variants: scenario.variants.filter(isChosen) }))
    .filter(({ variants }) => variants.length > 0)
}

function plan(variants: readonly Variant[], { strategies }: Options) {
  return variants.flatMap((variant) => strategies.map((strategy) => ({ variant, strategy })))
}

function seedsOf({ target }: Variant, { seed, seeds, isCheck }: Options): readonly number[] {
  const length = isCheck ? seedsFor(target, seeds) : seeds
  return Array.from({ length }, (_, index) => seed + index)
}

/** Each seed a JSON line, or all of them one line of the table. */
function say(outcomes: readonly Outcome[], { isJson, isCompare }: Options): void {
  const [first, ...others] = outcomes
  if (first === undefined) return
  if (isJson) for (const outcome of outcomes) console.log(jsonOf(outcome, isCompare))
  else console.log(lineOf(merged([first, ...others]), isCompare))
  for (const { seed, violations } of outcomes) {
    for (const { atMs, what } of violations.slice(0, 3)) {
      console.error(`    violation at ${atMs.toFixed(3)} ms: ${what} (seed ${seed})`)
    }
  }
}

try {
  process.exitCode = await main()
} catch (err) {
  if (!(err instanceof UsageError)) throw err
  console.error(err.message)
  process.exitCode = 2
}
