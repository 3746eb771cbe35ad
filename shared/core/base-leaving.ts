/** Where the base of a limit goes when regions leave the plane, and what comes back when they return. */
import { splitBase, type Weights } from './base-split.ts'
import type { BaseSplit, RegionId } from './policy.ts'

/** Which regions of a plane may have a part of its limits. */
export interface Attendance {
  /** Regions that are to have no part. */
  readonly away: ReadonlySet<RegionId>
  /** All others. */
  readonly present: readonly RegionId[]
}

/**
 * Weights without those of regions that are away; the others keep their proportions. Where nothing is left, all
 * that are present get the same; null if there are none.
 */
export function weightsOf(weights: Weights, { away, present }: Attendance): Weights | null {
  const left = Object.entries(weights).filter(([region, part]) => part > 0 && !away.has(region))
  if (left.length > 0) return Object.fromEntries(left)
  return present.length === 0 ? null : Object.fromEntries(present.map((region) => [region, 1]))
}

/** What decides the next base split of one limit. */
export interface BaseInForce {
  readonly base: BaseSplit
  readonly capacity: number
  /** As the operator wants it when all regions are there. */
  readonly split: Weights
}

/**
 * The base that a limit should move to: without the regions that are away, and by the operator's split again when
 * one of `returning` has no part although it is in that split. The base itself when nothing is to be moved.
 *
 * Parts of regions that stay keep their proportions, so a leaving region does not undo what was moved among them.
 */
export function baseFor(
  limit: BaseInForce,
  attendance: Attendance,
  returning: readonly RegionId[],
): BaseSplit {
  const { base, split, capacity } = limit
  const isLeft = Object.keys(base).some((region) => attendance.away.has(region))
  const isReturned = returning.some((region) => (split[region] ?? 0) > 0 && !(region in base))
  if (!isLeft && !isReturned) return base
  const weights = weightsOf(isReturned ? split : base, attendance)
  return weights === null ? base : splitBase(weights, capacity)
}
