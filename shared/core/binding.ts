/** Which of several decisions a caller has to heed, and for how long. Headers, bodies and gRPC all ask here. */
import { type Decision, isLasting } from './decision.ts'

/**
 * The decision to show for a whole check, or null without any; the first of equals.
 *
 * Of denials the one that blocks longest, for the check passes only when all do: one that waiting never mends
 * comes before any wait. Without a denial the one that leaves least.
 */
export function bindingOf<T extends { readonly decision: Decision }>(
  decided: readonly T[],
): T | null {
  let binding: T | null = null
  let bindingRank = Number.POSITIVE_INFINITY
  for (const one of decided) {
    const rank = rankOf(one.decision)
    if (binding !== null && rank >= bindingRank) continue
    binding = one
    bindingRank = rank
  }
  return binding
}

/**
 * Whole seconds after which a denied check can pass: at least 1 and never before `retryAfterMs`. Null when allowed
 * and when waiting never helps. What the region's present share never admits counts as a second, since its daemon
 * is about to borrow for it.
 */
export function waitSeconds(decision: Decision): number | null {
  if (decision.allowed || isLasting(decision.reason)) return null
  return Math.max(1, Math.ceil((decision.retryAfterMs ?? 0) / 1_000))
}

/**
 * Whole seconds until the quota that is left can be expected to grow again: on a denial the wait, otherwise the
 * time to a full bucket or the window's end. Null when nobody knows.
 */
export function resetSeconds(decision: Decision): number | null {
  const wait = waitSeconds(decision)
  if (wait !== null) return wait
  return decision.resetMs === null ? null : Math.ceil(decision.resetMs / 1_000)
}

/** Lower binds more: denials below zero by their wait, admissions by what they leave. */
function rankOf(decision: Decision): number {
  if (decision.allowed) return decision.remaining ?? Number.MAX_VALUE
  if (isLasting(decision.reason)) return Number.NEGATIVE_INFINITY
  return -1 - (decision.retryAfterMs ?? 0)
}
