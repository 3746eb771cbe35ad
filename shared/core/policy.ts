/** A region's name, such as `us-east-1`. */
export type RegionId = string

export const ALGORITHMS = ['token_bucket', 'fixed_window'] as const
export type Algorithm = (typeof ALGORITHMS)[number]

/** What a check answers while the region's Redis cannot decide. */
export const STORE_FAILURE_BEHAVIOURS = ['allow', 'deny'] as const
export type StoreFailureBehaviour = (typeof STORE_FAILURE_BEHAVIOURS)[number]

/** One step of a match: the entry's key, and its value unless every value is meant (each counted apart). */
export interface MatchEntry {
  readonly key: string
  readonly value?: string
}

/** Whole units per region; sums to POOL_UNITS over the regions that have a part. */
export type BaseSplit = Readonly<Record<RegionId, number>>

/**
 * At most `capacity` tokens per `windowMs` for each matching descriptor, over all regions.
 *
 * `id` identifies its counters and is never reused. A token bucket refills `capacity` tokens per `windowMs`
 * and holds at most `burst`; a fixed window ignores `burst`.
 */
export interface Limit {
  readonly id: number
  readonly name: string
  readonly algorithm: Algorithm
  readonly capacity: number
  readonly windowMs: number
  readonly burst: number
  /** Number of counter resets so far; part of a counter's identity, so that merges never undo a reset. */
  readonly usageEpoch: number
  /** Number of the base split; an older one is refused. */
  readonly epoch: number
  readonly base: BaseSplit
  /** The split of `epoch - 1` until every region has adopted `epoch`; null once all have. */
  readonly previousBase: BaseSplit | null
  /** Part of its own base that a region never lends, in per cent of that base. */
  readonly floorPercent: number
}

/** A named set of limits in a domain, as admin publishes it. `revision` is the plane-wide one of its last change. */
export interface Policy {
  readonly id: number
  readonly domain: string
  readonly name: string
  readonly description: string
  readonly revision: number
  readonly match: readonly MatchEntry[]
  readonly mode: 'strict'
  readonly onStoreFailure: StoreFailureBehaviour
  readonly limits: readonly Limit[]
}

/** The numbers that a limit was enforced with in a region before its last change there. */
export interface LimitNumbers {
  readonly version: number
  readonly capacity: number
  readonly windowMs: number
  readonly burst: number
  readonly home: number
}

/**
 * A limit as one region enforces it: `home` is the region's own part in units, epochs already applied.
 *
 * `version` grows each time a number of this limit changes in this region. `previous` and `changedAtUs`
 * (Redis TIME) let a script settle a bucket at the old rate up to the change and at the new one after it.
 */
export interface RegionLimit extends LimitNumbers {
  readonly id: number
  readonly name: string
  readonly algorithm: Algorithm
  readonly usageEpoch: number
  readonly previous: LimitNumbers | null
  readonly changedAtUs: number
  /**
   * Level of a bucket without stored state: `tokens` at `atUs`, refilling since. An absent bucket was idle long
   * enough to be full under the old numbers; without this a grown share would be born with tokens that another
   * region has already spent.
   */
  readonly idle: { readonly tokens: number; readonly atUs: number }
}

/** What a region is to enforce of a limit. The store adds what lets live counters settle across the change. */
export type RegionLimitSpec = Omit<RegionLimit, 'version' | 'previous' | 'changedAtUs' | 'idle'>

/** A policy as one region's enforcers read it from their own Redis. */
export interface RegionPolicy {
  readonly id: number
  readonly domain: string
  readonly name: string
  readonly revision: number
  readonly match: readonly MatchEntry[]
  readonly onStoreFailure: StoreFailureBehaviour
  readonly limits: readonly RegionLimit[]
}

/** What a region is to enforce of a policy, before its store has stamped the change. */
export type RegionPolicySpec = Omit<RegionPolicy, 'limits'> & {
  readonly limits: readonly RegionLimitSpec[]
}
