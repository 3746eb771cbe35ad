/** Whether a variant reached what it must. */
import type { Outcome } from './run.ts'
import type { Target } from './scenarios/scenario.ts'

/** Seeds that figures are averaged over where a target does not say. */
const SEEDS = 3

export function seedsFor(target: Target | undefined, asked: number): number {
  return target === undefined ? asked : Math.max(asked, target.seeds ?? SEEDS)
}

/** One line for each figure that missed its target. `outcome` is that of all seeds together. */
export function missesOf(outcome: Outcome, target: Target | undefined): readonly string[] {
  const misses: string[] = []
  if (outcome.excess > 0) misses.push(`excess is ${outcome.excess}, not 0`)
  if (outcome.violations.length > 0) misses.push(`${outcome.violations.length} broken rules`)
  if (target === undefined) return misses
  const least = (name: 'utilisation' | 'utilisationPartitionAware' | 'handedOut'): void => {
    const wanted = target[name]
    if (wanted === undefined || outcome[name] >= wanted) return
    misses.push(`${name} is ${outcome[name].toFixed(4)}, not ${wanted}`)
  }
  least('utilisation')
  least('utilisationPartitionAware')
  least('handedOut')
  const { convergenceMs } = target
  const took = outcome.convergenceMs ?? Number.POSITIVE_INFINITY
  if (convergenceMs !== undefined && took > convergenceMs) {
    misses.push(`convergence takes ${took} ms, not ${convergenceMs}`)
  }
  return misses
}

/** How many figures of a variant are held to a target, the excess included. */
export function targetsOf(target: Target | undefined): number {
  return 1 + Object.keys(target ?? {}).filter((name) => name !== 'seeds').length
}
