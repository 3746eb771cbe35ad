import type { CalendarUnit } from './calendar.ts'
import type { EmergencyAction } from './emergency.ts'
import type { Override, RegionOverride, Tiers } from './overrides.ts'

/** A region's name, such as `us-east-1`. */
export type RegionId = string

export const ALGORITHMS = [
  'token_bucket',
  'leaky_bucket',
  'fixed_window',
  'sliding_window',
  'sliding_log',
  'sliding_counter',
  'concurrency',
] as const
export type Algorithm = (typeof ALGORITHMS)[number]

/** What a check answers while the region's Redis cannot decide. `local`: what a part of the share in memory says. */
export const STORE_FAILURE_BEHAVIOURS = ['allow', 'deny', 'local'] as const
export type StoreFailureBehaviour = (typeof STORE_FAILURE_BEHAVIOURS)[number]

/** What is promised of a limit over all regions; docs/consistency.md has the bound of each. */
export const MODES = ['strict', 'relaxed', 'eventual'] as const
export type Mode = (typeof MODES)[number]

/** How regions divide what all of them need: evenly up to the need of each, or in proportion to it. */
export const OBJECTIVES = ['max-min', 'proportional'] as const
export type Objective = (typeof OBJECTIVES)[number]

/** Whether enforcers may take a hot key's tokens in blocks. */
export const LEASE_CHOICES = ['auto', 'off'] as const
export type LeaseChoice = (typeof LEASE_CHOICES)[number]

/** Whether regions lend each other of a limit. `frozen`: loans stay as they are. `none`: those there are go home. */
export const LENDINGS = ['free', 'frozen', 'none'] as const
export type Lending = (typeof LENDINGS)[number]

/** One step of a match: the entry's key, and its value unless every value is meant. */
export interface MatchEntry {
  readonly key: string
  readonly value?: string
  /** All values that match are counted together; absent: each apart. */
  readonly shared?: boolean
}

/** Whole units per region; sums to POOL_UNITS over the regions that have a part. */
export type BaseSplit = Readonly<Record<RegionId, number>>

/** Windows that begin with each unit of a time zone's calendar. `timeZone` as `parseTimeZone` gives it. */
export interface Calendar {
  readonly unit: CalendarUnit
  readonly timeZone: string
}

/** What a limit counts and how, apart from its numbers; the same in the plane and in each region. */
export interface LimitRule {
  /** Identifies its counters; never used again for another limit. */
  readonly id: number
  readonly name: string
  readonly algorithm: Algorithm
  /** Of a fixed window that follows a calendar; `windowMs` is then the longest that a window lasts. */
  readonly calendar: Calendar | null
  /** Counters that each key is spread over; in a region each has the numbers of a part (`counter-parts.ts`). */
  readonly shards: number
  readonly leases: LeaseChoice
  /** Id of the limit beside which this one is evaluated and reported, never enforced; null: it is enforced. */
  readonly candidateOf: number | null
}

/**
 * At most `capacity` tokens per `windowMs` for each matching descriptor, over all regions; 0: none ever.
 *
 * Buckets refill `capacity` tokens per `windowMs` and hold at most `burst`; other algorithms have no burst, and
 * `burst` is the capacity. Of a concurrency limit `windowMs` is the longest that a holder may hold.
 */
export interface Limit extends LimitRule {
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
  /** `free` when left out. */
  readonly lending?: Lending
}

/** A named set of limits in a domain, as admin publishes it. `revision` is the plane-wide one of its last change. */
export interface Policy {
  readonly id: number
  readonly domain: string
  readonly name: string
  readonly description: string
  readonly revision: number
  readonly match: readonly MatchEntry[]
  readonly mode: Mode
  /** How far above the limit `relaxed` may go, in per cent of it; null in other modes. */
  readonly relaxedPercent: number | null
  readonly objective: Objective
  readonly onStoreFailure: StoreFailureBehaviour
  /** Its limits are evaluated and counted, and never deny. */
  readonly shadow: boolean
  /** What it matches is always allowed; it has no limits then. */
  readonly unlimited: boolean
  /** Policies of the same domain that are left out of a check in which this one governs a descriptor. */
  readonly replaces?: readonly string[]
  /** Enforced limits first, each candidate after all of them. */
  readonly limits: readonly Limit[]
  /** Present where the policy has tiers. */
  readonly tiers?: Tiers
  /** Key of the entry whose value overrides go by; absent: the first entry of the match with many values. */
  readonly overridesBy?: string
  /** Present where some tenant has other than its policy says; each value once. */
  readonly overrides?: readonly Override[]
  /** Present while an operator's emergency actions hold, and until admin has taken those out that ended. */
  readonly emergency?: readonly EmergencyAction[]
}

/** The numbers that a limit was enforced with in a region before its last change there. */
export interface LimitNumbers {
  readonly version: number
  readonly capacity: number
  readonly windowMs: number
  readonly burst: number
  readonly home: number
}

/** A long window that is open, and the tokens that this region may spend in it without asking. */
export interface StockWindow {
  readonly startMs: number
  readonly endMs: number
  readonly floor: number
}

/**
 * A limit as one region enforces it, with the numbers of one of its `shards`: `home` is the region's own part in units, epochs already applied.
 *
 * `version` grows each time a number of this limit changes in this region. `previous` and `changedAtUs`
 * (Redis TIME) let a script settle a bucket at the old rate up to the change and at the new one after it.
 */
export interface RegionLimit extends LimitNumbers, LimitRule {
  /** What callers are told in place of `capacity`: where the mode lets more be admitted, or a counter is but a part. */
  readonly nominal?: number
  /** Present where the limit's windows are stock: those that admin has opened, at most two, the earlier first. */
  readonly stock?: readonly StockWindow[]
  /** Present where the region counts for itself and is told what others counted. */
  readonly estimate?: true
  readonly usageEpoch: number
  readonly previous: LimitNumbers | null
  readonly changedAtUs: number
  /**
   * Level of a bucket without stored state: `tokens` at `atUs`, refilling since. An absent bucket was idle long
   * enough to be full under the old numbers; without this a grown share would be born with tokens that another
   * region has already spent.
   */
  readonly idle: {
    readonly tokens: number
    readonly atUs: number
    /** Until `untilUs` there may be states that were kept for `us` only; absent where no change is known. */
    readonly held?: { readonly us: number; readonly untilUs: number }
  }
}

/** What a region is to enforce of a limit. The store adds what lets live counters settle across the change. */
export type RegionLimitSpec = Omit<RegionLimit, 'version' | 'previous' | 'changedAtUs' | 'idle'>

/** Whether admin moves the base of a policy's limits slowly to where the demand is. */
export const REBASE_CHOICES = ['off', 'auto'] as const
export type RebaseChoice = (typeof REBASE_CHOICES)[number]

/** A policy as one region's enforcers read it from their own Redis. */
export interface RegionPolicy
  extends Omit<Policy, 'description' | 'objective' | 'limits' | 'overrides' | 'emergency'> {
  readonly limits: readonly RegionLimit[]
  readonly overrides?: readonly RegionOverride[]
  /** Policy version of the region at which `overrides` last changed; absent before the first. */
  readonly overridesVersion?: number
}

/** What a region is to enforce of a policy, before its store has stamped the change. */
export type RegionPolicySpec = Omit<RegionPolicy, 'limits' | 'overrides' | 'overridesVersion'> & {
  readonly limits: readonly RegionLimitSpec[]
  /** Those in force; expired ones are left out. */
  readonly overrides?: readonly Override[]
}

/** Whether a limit of this algorithm may admit more at once than it refills in a window, or less. */
export function hasBurst(algorithm: Algorithm): boolean {
  return algorithm === 'token_bucket' || algorithm === 'leaky_bucket'
}
