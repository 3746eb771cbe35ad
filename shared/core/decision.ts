/** What a check is told of one limit, whether the store decided it or the policy's failure behaviour did. */
import { hasBurst, type RegionLimit, type StoreFailureBehaviour } from './policy.ts'
import type { DenialReason } from './ports.ts'

/**
 * `store_unavailable`: the store did not decide, and the policy's `onStoreFailure` did. `deny_all`: the capacity is
 * 0, so there was nothing to decide.
 */
export type DecisionReason = DenialReason | 'store_unavailable' | 'deny_all'

/** Like `LimitDecision`; a figure that nobody knows is null. */
export interface Decision {
  readonly allowed: boolean
  readonly reason: DecisionReason | null
  readonly remaining: number | null
  readonly resetMs: number | null
  readonly retryAfterMs: number | null
}

/** What a caller is told to wait when the store cannot decide: about what a restart of Redis takes. */
export const STORE_RETRY_AFTER_MS = 1_000

const DENIED_WITHOUT_STORE: Decision = {
  allowed: false,
  reason: 'store_unavailable',
  remaining: null,
  resetMs: null,
  retryAfterMs: STORE_RETRY_AFTER_MS,
}

const WITHOUT_STORE: Readonly<Record<StoreFailureBehaviour, Decision>> = {
  allow: {
    allowed: true,
    reason: 'store_unavailable',
    remaining: null,
    resetMs: null,
    retryAfterMs: null,
  },
  deny: DENIED_WITHOUT_STORE,
  // Where nothing local can decide, the limit must hold.
  local: DENIED_WITHOUT_STORE,
}

/** Whether no wait can make a denial for this reason an admission; only another cost or another policy can. */
export function isLasting(reason: DecisionReason | null): boolean {
  return reason === 'cost_exceeds_capacity' || reason === 'deny_all'
}

/** The decision that an operator chose for the time when the store cannot decide. */
export function decideWithoutStore(behaviour: StoreFailureBehaviour): Decision {
  return WITHOUT_STORE[behaviour]
}

/**
 * What a limit that was only read would have said of `cost`.
 *
 * For limits of a check that another slot group has already denied. The wait is the time to a full bucket or
 * the window's end: maybe longer than needed and never too short, since a read does not tell the rate.
 */
export function decideFromRead(limit: RegionLimit, read: Decision, cost: number): Decision {
  if (read.remaining === null) return read
  if (cost > mostAtOnce(limit)) {
    return { ...read, allowed: false, reason: 'cost_exceeds_capacity', retryAfterMs: null }
  }
  if (cost > read.remaining) {
    return { ...read, allowed: false, reason: 'limit', retryAfterMs: read.resetMs }
  }
  return read
}

/** An admitted decision after its tokens were given back. */
export function withGivenBack(limit: RegionLimit, decision: Decision, cost: number): Decision {
  if (decision.remaining === null) return decision
  return { ...decision, remaining: Math.min(mostAtOnce(limit), decision.remaining + cost) }
}

function mostAtOnce(limit: RegionLimit): number {
  return hasBurst(limit.algorithm) ? limit.burst : limit.capacity
}
