/** Runs one world under one strategy and says what came of it. */
import type { Meter, Violation } from './meters/meter.ts'
import type { Scenario, Variant } from './scenarios/scenario.ts'
import { STRATEGIES, type StrategyName } from './strategies/all.ts'
import { World } from './world/world.ts'

export interface Outcome {
  readonly scenario: string
  readonly variant: string
  readonly strategy: StrategyName
  readonly seed: number
  /** Tokens admitted beyond what the limit allows. */
  readonly excess: number
  readonly utilisation: number
  readonly utilisationPartitionAware: number
  readonly convergenceMs: number | null
  readonly jain: number
  readonly falseDenials: number
  readonly bytesPerSecondPerRegion: number
  readonly messagesPerSecondPerRegion: number
  readonly churn: number
  /** Part of the limit that all regions together held, on average and at most. */
  readonly held: number
  readonly heldMost: number
  readonly handedOut: number
  readonly attempts: number
  readonly violations: readonly Violation[]
  readonly published: string | null
}

export interface RunOptions {
  readonly seed: number
  readonly strategy: StrategyName
  readonly durationMs: number
}

export function runVariant(
  scenario: Scenario,
  variant: Variant,
  options: RunOptions,
): { readonly outcome: Outcome; readonly meter: Meter } {
  const { seed, strategy, durationMs } = options
  const spec = { ...variant.spec, durationMs }
  const meter = new World(spec, seed, STRATEGIES[strategy]).run()
  const outcome: Outcome = {
    scenario: scenario.id,
    variant: variant.name,
    strategy,
    seed,
    excess: meter.reference.excess,
    utilisation: meter.utilisation(),
    utilisationPartitionAware: meter.utilisationParted(),
    convergenceMs: meter.convergenceMs(),
    jain: meter.jain(),
    falseDenials: meter.falseDenials(),
    bytesPerSecondPerRegion: meter.bytesPerSecondPerRegion(),
    messagesPerSecondPerRegion: meter.messagesPerSecondPerRegion(),
    churn: meter.churn(),
    held: meter.held(),
    heldMost: meter.heldMost(),
    handedOut: meter.handedOut(),
    attempts: meter.attempts,
    violations: meter.violations,
    published: variant.published ?? null,
  }
  return { outcome, meter }
}

/**
 * Several seeds of one variant as one outcome: means, but for what must never happen (the worst) and for convergence
 * (the 95th percentile; null when any seed did not converge).
 */
export function merged(outcomes: readonly [Outcome, ...Outcome[]]): Outcome {
  const [first] = outcomes
  const mean = (figure: (outcome: Outcome) => number): number =>
    outcomes.reduce((sum, outcome) => sum + figure(outcome), 0) / outcomes.length
  return {
    ...first,
    excess: Math.max(...outcomes.map((outcome) => outcome.excess)),
    utilisation: mean((outcome) => outcome.utilisation),
    utilisationPartitionAware: mean((outcome) => outcome.utilisationPartitionAware),
    convergenceMs: percentile95(outcomes.map((outcome) => outcome.convergenceMs)),
    jain: mean((outcome) => outcome.jain),
    falseDenials: mean((outcome) => outcome.falseDenials),
    bytesPerSecondPerRegion: mean((outcome) => outcome.bytesPerSecondPerRegion),
    messagesPerSecondPerRegion: mean((outcome) => outcome.messagesPerSecondPerRegion),
    churn: mean((outcome) => outcome.churn),
    held: mean((outcome) => outcome.held),
    heldMost: Math.max(...outcomes.map((outcome) => outcome.heldMost)),
    handedOut: mean((outcome) => outcome.handedOut),
    violations: outcomes.flatMap((outcome) => outcome.violations),
  }
}

function percentile95(times: readonly (number | null)[]): number | null {
  const sorted = times.map((time) => time ?? Number.POSITIVE_INFINITY).sort((a, b) => a - b)
  const time = sorted[Math.ceil(0.95 * sorted.length) - 1] ?? Number.POSITIVE_INFINITY
  return Number.isFinite(time) ? time : null
}

/** False when something was promised and not kept. */
export function isSound(outcome: Outcome): boolean {
  return outcome.excess === 0 && outcome.violations.length === 0
}
