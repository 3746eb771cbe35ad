import { parseArgs } from 'node:util'
import { STRATEGIES, type StrategyName } from '../strategies/all.ts'

export const HELP = `Simulates a plane of several regions in virtual time.

  npm run sim -- [options]

  --scenario S3[,S9]   only these scenarios (see docs/simulation.md)
  --all                all scenarios; the default without --scenario and --soak
  --long               also the variants that take minutes
  --variant TEXT       only variants whose name contains TEXT
  --compare            every strategy, not only loans
  --strategy NAME[,…]  these strategies: ${Object.keys(STRATEGIES).join(', ')}
  --check              hold loans to the targets of each variant, over as many seeds as the target says
  --seed N             first seed (default 1)
  --seeds N            this many seeds: the table shows means and the 95th percentile of convergence (default 1)
  --seconds N          simulated seconds in place of each scenario's own
  --json               one JSON line for each variant and seed
  --plot OUT.svg       draws share, demand and admitted over time of the last run
  --soak [STEPS]       random hostile worlds until STEPS steps of the protocol (default 10000000)
  --help

Exits with 1 when a strategy that promises never to pass the limit did, or a target was missed under --check;
with 2 when an argument makes no sense. The same seed gives the same figures, whatever else the machine does.`

export interface Options {
  readonly isHelp: boolean
  readonly scenarios: readonly string[] | null
  readonly isLong: boolean
  readonly variant: string | null
  readonly strategies: readonly StrategyName[]
  readonly isCompare: boolean
  readonly isCheck: boolean
  readonly seed: number
  readonly seeds: number
  readonly durationMs: number | null
  readonly isJson: boolean
  readonly plot: string | null
  readonly soakSteps: number | null
}

/** Bad usage: said without a stack. */
export class UsageError extends Error {}

const SOAK_STEPS = 10_000_000

export function parseOptions(args: readonly string[]): Options {
  const { values, positionals } = readArgs(args)
  const isSoak = values.soak === true
  if (positionals.length > (isSoak ? 1 : 0)) {
    throw new UsageError(`unexpected argument: ${positionals.join(' ')}`)
  }
  const seconds = secondsOf(values.seconds)
  if (values.check === true) requireWhole(values)
  return {
    isHelp: values.help === true,
    scenarios: values.all === true ? null : listOf(values.scenario),
    isLong: values.long === true,
    variant: values.variant ?? null,
    strategies: strategiesOf(values.strategy, values.compare === true),
    isCompare: values.compare === true,
    isCheck: values.check === true,
    seed: wholeOf('--seed', values.seed ?? '1'),
    seeds: positiveOf('--seeds', values.seeds ?? '1'),
    durationMs: seconds === null ? null : seconds * 1_000,
    isJson: values.json === true,
    plot: values.plot ?? null,
    soakSteps: isSoak ? positiveOf('--soak', positionals[0] ?? String(SOAK_STEPS)) : null,
  }
}

/** A target is for a whole run of loans. */
function requireWhole(values: {
  readonly compare?: boolean
  readonly strategy?: string
  readonly seconds?: string
}): void {
  for (const option of ['compare', 'strategy', 'seconds'] as const) {
    if (values[option] !== undefined) throw new UsageError(`--check goes without --${option}`)
  }
}

function readArgs(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        scenario: { type: 'string' },
        all: { type: 'boolean' },
        long: { type: 'boolean' },
        variant: { type: 'string' },
        compare: { type: 'boolean' },
        check: { type: 'boolean' },
        strategy: { type: 'string' },
        seed: { type: 'string' },
        seeds: { type: 'string' },
        seconds: { type: 'string' },
        json: { type: 'boolean' },
        plot: { type: 'string' },
        soak: { type: 'boolean' },
        help: { type: 'boolean' },
      },
    })
  } catch (err) {
    throw new UsageError(err instanceof Error ? err.message : String(err))
  }
}

function listOf(text: string | undefined): readonly string[] | null {
  return text === undefined ? null : text.split(',').map((part) => part.trim())
}

function strategiesOf(text: string | undefined, isCompare: boolean): readonly StrategyName[] {
  const names = listOf(text)
  const all = Object.keys(STRATEGIES).filter(isStrategy)
  if (names === null) return isCompare ? all : ['loans']
  return names.map((name) => {
    if (isStrategy(name)) return name
    throw new UsageError(`no strategy is called ${name}; there are ${all.join(', ')}`)
  })
}

function isStrategy(name: string): name is StrategyName {
  return name in STRATEGIES
}

function secondsOf(text: string | undefined): number | null {
  return text === undefined ? null : positiveOf('--seconds', text)
}

function wholeOf(option: string, text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new UsageError(`${option} takes a whole number, not ${text}`)
}

function positiveOf(option: string, text: string): number {
  const value = wholeOf(option, text)
  if (value > 0) return value
  throw new UsageError(`${option} takes a number above 0, not ${text}`)
}
