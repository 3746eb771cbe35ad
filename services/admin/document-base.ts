import { type Attendance, weightsOf } from '../../shared/core/base-leaving.ts'
import { splitBase, type Weights } from '../../shared/core/base-split.ts'
import type { BaseSplit } from '../../shared/core/policy.ts'
import { isSameSplit } from '../../shared/postgres/policy-rows.ts'
import { weightSteps } from '../../shared/protocol/policy.ts'

/** What a document says of a limit's base. */
interface Written {
  readonly split: Weights
  readonly capacity: number
}

/**
 * The base of a limit as a document is saved: its split among the regions that are there. Where that split is as it
 * was and the base was moved since, by a drain or towards the demand, the base stays where it was moved to.
 */
export function documentBase(
  limit: Written,
  before: (Written & { readonly base: BaseSplit }) | undefined,
  attendance: Attendance,
): BaseSplit {
  const isMoved = before !== undefined && !isSameSplit(before.base, plainBase(before, attendance))
  if (!isMoved || !isSameSplit(before.split, limit.split)) return plainBase(limit, attendance)
  return before.capacity === limit.capacity ? before.base : splitBase(before.base, limit.capacity)
}

/** The base of a split among the regions that are there. */
export function plainBase({ split, capacity }: Written, attendance: Attendance): BaseSplit {
  const weights = weightSteps(split)
  return splitBase(weightsOf(weights, attendance) ?? weights, capacity)
}
