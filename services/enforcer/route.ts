/** Where a descriptor leads. */
import type { Decision } from '../../shared/core/decision.ts'
import type { RegionLimit, StoreFailureBehaviour } from '../../shared/core/policy.ts'
import type { CheckTarget } from '../../shared/core/ports.ts'
import type { DecisionTemplate } from '../../shared/protocol/check-answer.ts'
import type { LimitWords } from '../../shared/protocol/limit-words.ts'
import type { Held } from './lease-book.ts'
import type { PolicyCells, WatchCells } from './metrics.ts'

/** A limit with what answering for it takes, worked out once per change of its policy. */
export interface EnforcedLimit {
  readonly limit: RegionLimit
  readonly template: DecisionTemplate
  readonly words: LimitWords
  readonly onStoreFailure: StoreFailureBehaviour
  readonly cells: PolicyCells
}

/** Limits and their counters, in the same order. */
export interface LimitSet {
  readonly limits: readonly EnforcedLimit[]
  readonly targets: readonly CheckTarget[]
  /** Limits of capacity 0: they deny whatever is asked, and no store is asked for them. */
  readonly denying: readonly EnforcedLimit[]
}

/** Limits that are evaluated beside a check and never change its answer. */
export interface Watch extends LimitSet {
  readonly kind: WatchKind
  /** Id of the limit that a candidate stands beside: what it would be in place of. */
  readonly inPlaceOf: number | null
  readonly cells: WatchCells
}
export type WatchKind = 'shadow' | 'candidate'

/** The one limit of a route that has no more to it, and its counter. */
export interface SoleRoute {
  readonly limit: EnforcedLimit
  readonly target: CheckTarget
  /** What is leased of the counter; kept by the lease book. */
  lease: Held | null
}

/** The ways to the parts of a key that is counted in several. The route that has them leads to the first itself. */
export interface RouteParts {
  readonly count: number
  /** The route to the part of `request`. */
  routeOf(requestId: string): Route
}

/** The limits that govern a descriptor; all are empty when no policy does. */
export interface Route extends LimitSet {
  readonly group: number
  /** True when a policy governs the descriptor, whether it limits or not. */
  readonly matched: boolean
  readonly unlimited: boolean
  /** The policy that governs, and those that it puts out of force for the check. */
  readonly policy: RoutePolicy
  readonly watches: readonly Watch[]
  /** Of most routes; null where a check takes more than asking the store for one limit. */
  readonly sole: SoleRoute | null
  /** Of the route of a key that is counted in several parts; null of all others, and of the parts. */
  readonly parts: RouteParts | null
}

export interface RoutePolicy {
  readonly name: string | null
  readonly replaces: readonly string[]
}

/** Of routes that no policy led to: nothing replaces them, and they replace nothing. */
export const NO_POLICY: RoutePolicy = { name: null, replaces: [] }

export const UNMATCHED: Route = {
  group: 0,
  limits: [],
  targets: [],
  denying: [],
  matched: false,
  unlimited: false,
  policy: NO_POLICY,
  watches: [],
  sole: null,
  parts: null,
}

/** Where a descriptor leads whose policy another one of the check replaces: nowhere. */
export const REPLACED: Route = { ...UNMATCHED, matched: true }

/** What a limit of capacity 0 says of every check. */
export const DENY_ALL: Decision = {
  allowed: false,
  reason: 'deny_all',
  remaining: 0,
  resetMs: null,
  retryAfterMs: null,
}

/** Whether a route is only what most are: limits that the store decides. */
export function isPlain({ denying, unlimited, watches }: Route): boolean {
  return denying.length === 0 && !unlimited && watches.length === 0
}

/** The one limit of a route, if that is all there is; a limit that counts holders takes more. */
export function soleRouteOf({ limits, targets }: LimitSet): SoleRoute | null {
  const [limit] = limits
  const [target] = targets
  if (limit === undefined || target === undefined || limits.length > 1) return null
  return limit.limit.algorithm === 'concurrency' ? null : { limit, target, lease: null }
}
