import { Loans } from '../strategies/loans.ts'
import { Prng } from '../world/prng.ts'
import { World } from '../world/world.ts'
import { randomWorld } from './random-world.ts'

/** What came of one random world. */
export interface SoakOutcome {
  readonly seed: number
  readonly steps: number
  readonly attempts: number
  readonly excess: number
  /** Broken rules, or how the code itself broke. */
  readonly violations: readonly string[]
}

export function soakWorld(seed: number): SoakOutcome {
  const spec = randomWorld(new Prng(seed).fork('world'))
  let loans: Loans | null = null
  const world = new World(spec, seed, (of) => {
    loans = new Loans(of)
    return loans
  })
  const broken: string[] = []
  try {
    world.run()
  } catch (err) {
    broken.push(err instanceof Error ? `${err.name}: ${err.message}` : String(err))
  }
  const { meter } = world
  const told = meter.violations.map(({ atMs, what }) => `${atMs.toFixed(3)} ms: ${what}`)
  if (meter.reference.excess > 0) {
    const atMs = (meter.reference.excessAtUs - world.startUs) / 1_000
    told.push(`${atMs.toFixed(3)} ms: ${meter.reference.excess.toFixed(3)} tokens over the limit`)
  }
  return {
    seed,
    steps: stepsOf(loans),
    attempts: meter.attempts,
    excess: meter.reference.excess,
    violations: [...broken, ...told],
  }
}

function stepsOf(loans: Loans | null): number {
  let steps = 0
  for (const region of loans?.faults ?? []) {
    for (const daemon of region.daemons) steps += daemon.steps
  }
  return steps
}
