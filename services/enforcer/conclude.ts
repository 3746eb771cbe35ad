/** Puts the results of a check together. */
import { countDecision } from './metrics.ts'
import type { AsideDescriptor } from './parts.ts'
import type { DecideContext, Decided, GroupResult } from './slot-group.ts'
import type { Watched } from './watch.ts'

/** The outcome of a check, its decisions in the order of the request. */
export interface Verdict {
  readonly allowed: boolean
  /** Highest policy revision that this enforcer applies. */
  readonly revision: number
  readonly degraded: boolean
  readonly decided: readonly Decided[]
  /** What is watched beside the check and does not change its answer. */
  readonly watched: readonly Watched[]
  /** Positions of the descriptors that are unlimited. */
  readonly unlimited: readonly number[]
  /** True when no policy governs any descriptor. */
  readonly unmatched: boolean
  /** When the store admitted the check, by Redis TIME; the earliest of several parts. Null where it did not. */
  readonly admittedAtUs: number | null
}

/** The verdict that `results` come to; counts it. */
export function conclude(
  context: DecideContext,
  results: readonly GroupResult[],
  aside: readonly AsideDescriptor[] = [],
): Verdict {
  const [only] = results
  const decided =
    only !== undefined && results.length === 1
      ? only.decided
      : results.flatMap((result) => result.decided).sort((a, b) => a.position - b.position)
  let degraded = false
  for (const { limit, decision, degraded: reason } of decided) {
    countDecision(limit.cells, decision, reason)
    degraded ||= reason !== null
  }
  const allowed = results.every((result) => result.allowed)
  const unlimited = aside.filter(({ route }) => route.unlimited).map(({ position }) => position)
  const unmatched = decided.length === 0 && aside.length === 0
  if (unmatched) context.metrics.unmatchedChecks.count++
  context.metrics.checks[allowed ? 'allowed' : 'denied'].count++
  const revision = context.policies.current()?.revision ?? 0
  const admittedAtUs = allowed ? earliest(results) : null
  const watched: readonly Watched[] = []
  return { allowed, revision, degraded, decided, watched, unlimited, unmatched, admittedAtUs }
}

/** A refund by it is then never more than the store would give back for any part. */
function earliest(results: readonly GroupResult[]): number | null {
  let earliestUs: number | null = null
  for (const { answered } of results) {
    if (answered !== null) earliestUs = Math.min(earliestUs ?? answered.atUs, answered.atUs)
  }
  return earliestUs
}
