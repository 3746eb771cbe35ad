/** The command `npm run sim`. */
import { writeFileSync } from 'node:fs'
import { drawRun } from './cli/drawing.ts'
import { HELP, type Options, parseOptions, UsageError } from './cli/options.ts'
import { createProgress } from './cli/progress.ts'
import { headOf, jsonOf, lineOf } from './cli/report.ts'
import { isSound, merged, type Outcome, runVariant } from './run.ts'
import { SCENARIOS } from './scenarios/all.ts'
import type { Scenario, Variant } from './scenarios/scenario.ts'
import { soak } from './soak/soak.ts'
import { STRICT } from './strategies/all.ts'

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

/** Runs what was asked for; false when a strict strategy passed a limit. */
function runAll(options: Options): boolean {
  const chosen = choose(options)
  const runs = chosen.flatMap(({ variants }) => variants).length
  const progress = createProgress(runs * options.strategies.length * options.seeds)
  const drawings: (() => string)[] = []
  let isAllSound = true
  for (const { scenario, variants } of chosen) {
    progress.clear()
    if (!options.isJson) console.log(headOf(scenario.id, scenario.title, options.isCompare))
    for (const { variant, strategy } of plan(variants, options)) {
      const outcomes = seedsOf(options).map((seed) => {
        progress.begin(`${scenario.id} ${variant.name}`)
        const durationMs = options.durationMs ?? variant.spec.durationMs
        const { outcome, meter } = runVariant(scenario, variant, { seed, strategy, durationMs })
        progress.end()
        const title = `${scenario.id} ${variant.name}, ${strategy}, seed ${seed}`
        drawings[0] = () => drawRun(title, meter)
        return outcome
      })
      say(outcomes, options)
      isAllSound &&= outcomes.every(isSound) || !STRICT.includes(strategy)
    }
  }
  const [draw] = drawings
  if (options.plot !== null && draw !== undefined) writeFileSync(options.plot, draw())
  return isAllSound
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

function seedsOf({ seed, seeds }: Options): readonly number[] {
  return Array.from({ length: seeds }, (_, index) => seed + index)
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
