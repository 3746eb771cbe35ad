/**
 * Moving a base split slowly towards where the demand is, so that a partition finds each region with a part that
 * fits it. Loans follow the demand within a second and need no such move; what a cut leaves of them is the base.
 */
import { type FloorRule, floorOf, splitBase, type Weights } from './base-split.ts'
import type { BaseSplit, RegionId } from './policy.ts'
import { POOL_UNITS } from './units.ts'

/** The base stays where it is while less than this part of the pool is in the wrong place: noise moves nothing. */
export const REBASE_FROM = 0.1

/** Most of the pool by which one region's base changes in a step: a burst of an hour moves no more. */
export const REBASE_STEP = 0.2

/** What decides the next base of one limit. */
export interface RebaseInput extends FloorRule {
  readonly base: BaseSplit
  /** The operator's split: each region in it keeps at least the floor of that part. */
  readonly split: Weights
  /** Tokens that each region wanted in the last hour. */
  readonly demand: Weights
  /** Regions that may have a part. */
  readonly present: readonly RegionId[]
}

/**
 * The base to move to, or null when the present one fits well enough, or nobody wanted anything.
 *
 * Regions keep the floor of the part that the operator gave them, and the rest goes by the demand. A step changes no
 * region by more than REBASE_STEP of the pool and keeps the direction of every change.
 */
export function proposeBase(input: RebaseInput): BaseSplit | null {
  const { base, capacity, present } = input
  const target = targetOf(input)
  if (target === null) return null
  const regions = [...new Set([...Object.keys(base), ...present])].sort()
  const changes = regions.map((region) => (target[region] ?? 0) - (base[region] ?? 0))
  const misplaced = changes.reduce((sum, change) => sum + Math.max(0, change), 0)
  if (misplaced <= REBASE_FROM * POOL_UNITS) return null
  const largest = Math.max(...changes.map(Math.abs))
  const part = Math.min(1, (REBASE_STEP * POOL_UNITS) / largest)
  const weights = regions.map((region, index) => [
    region,
    Math.max(0, (base[region] ?? 0) + part * (changes[index] ?? 0)),
  ])
  const next = splitBase(Object.fromEntries(weights), capacity)
  return regions.every((region) => next[region] === base[region]) ? null : next
}

/** Each region's floor, and of the rest what its demand is of all demand. */
function targetOf(input: RebaseInput): Weights | null {
  const { split, demand, present, capacity } = input
  const total = present.reduce((sum, region) => sum + (demand[region] ?? 0), 0)
  if (total <= 0 || present.length < 2) return null
  const given = Object.values(split).some((weight) => weight > 0)
    ? splitBase(split, capacity)
    : ({} as BaseSplit)
  const floors = present.map((region) => floorOf(given[region] ?? 0, input))
  const kept = floors.reduce((sum, floor) => sum + floor, 0)
  const rest = Math.max(0, POOL_UNITS - kept)
  return Object.fromEntries(
    present.map((region, index) => [
      region,
      (floors[index] ?? 0) + (rest * (demand[region] ?? 0)) / total,
    ]),
  )
}
