/** The command `npm run sim`. */
import { writeFileSync } from 'node:fs'
import { drawRun } from './cli/drawing.ts'
import { HELP, type Options, parseOptions, UsageError } from './cli/options.ts'
import { createProgress } from './cli/progress.ts'
import { headOf, jsonOf, lineOf } from './cli/report.ts'
import type { Meter } from './meters/meter.ts'
import { isSound, type Outcome, runVariant } from './run.ts'
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
  let last: { readonly title: string; readonly meter: Meter } | null = null
  let isAllSound = true
  for (const { scenario, variants } of chosen) {
    progress.clear()
    if (!options.isJson) console.log(headOf(scenario.id, scenario.title, options.isCompare))
    for (const { variant, strategy, seed } of plan(variants, options)) {
      progress.begin(`${scenario.id} ${variant.name}`)
      const { outcome, meter } = runVariant(scenario, variant, {
        seed,
        strategy,
        durationMs: options.durationMs ?? variant.spec.durationMs,
      })
      progress.end()
      say(outcome, options)
      isAllSound &&= isSound(outcome) || !STRICT.includes(strategy)
      last = { title: `${scenario.id} ${variant.name}, ${strategy}, seed ${seed}`, meter }
    }
  }
  if (options.plot !== null && last !== null) {
    writeFileSync(options.plot, drawRun(last.title, last.meter))
  }
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

function plan(variants: readonly Variant[], { strategies, seed, seeds }: Options) {
  return variants.flatMap((variant) =>
    strategies.flatMap((strategy) =>
      Array.from({ length: seeds }, (_, index) => ({ variant, strategy, seed: seed + index })),
    ),
  )
}

function say(outcome: Outcome, { isJson, isCompare }: Options): void {
  console.log(isJson ? jsonOf(outcome, isCompare) : lineOf(outcome, isCompare))
  for (const { atMs, what } of outcome.violations.slice(0, 3)) {
    console.error(`    violation at ${atMs.toFixed(3)} ms: ${what} (seed ${outcome.seed})`)
  }
}

try {
  process.exitCode = await main()
} catch (err) {
  if (!(err instanceof UsageError)) throw err
  console.error(err.message)
  process.exitCode = 2
}
