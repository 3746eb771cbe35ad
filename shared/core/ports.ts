/**
 * What the use cases need of the outside, in the words of the domain. Adapters live in shared/redis,
 * shared/nats and shared/postgres; each port has a contract suite in test/contract.
 */
import type { CounterId } from './descriptor.ts'
import type {
  LedgerRow,
  PairState,
  RegionRecord,
  Sample,
  ShareOutcome,
  ShareWrite,
} from './ledger/types.ts'
import type { Policy, RegionId, RegionLimit, RegionPolicy } from './policy.ts'

/** One limit to decide for one check: which numbers apply and which counter. */
export interface CheckTarget {
  readonly limit: RegionLimit
  readonly counter: CounterId
}

/** The limits of one check, all of one slot group, decided all or none; cost 0 reads without changing. */
export interface GroupCheck {
  readonly group: number
  readonly targets: readonly CheckTarget[]
  readonly cost: number
}

export type DenialReason = 'limit' | 'cost_exceeds_capacity'

/** What one limit says of one check. Times are from the instant of the decision (Redis TIME). */
export interface LimitDecision {
  readonly allowed: boolean
  readonly reason: DenialReason | null
  /** Whole tokens that this region may still admit now, 0..capacity. */
  readonly remaining: number
  /** Until the bucket is full again, or the window ends. */
  readonly resetMs: number
  /** Least wait after which the same cost can pass under the present share; null when allowed or never. */
  readonly retryAfterMs: number | null
}

/**
 * The enforcer's view of its region's Redis.
 *
 * `check` is not idempotent. It rejects with QUOTA_STORE_UNAVAILABLE when Redis does not answer within the
 * deadline (the check may or may not have counted) or its scripts are not loaded (nothing counted), and with
 * QUOTA_POLICY_STALE when the region has a newer policy version than `version` (nothing counted).
 */
export interface CheckStore {
  check(check: GroupCheck, version: number): Promise<readonly LimitDecision[]>
  /** Gives tokens of an admitted check back; never above capacity, never into another window. */
  giveBack(check: GroupCheck, version: number): Promise<void>
}

/** A region's policies as its enforcers read them; `version` grows with each change in the region. */
export interface RegionPolicies {
  readonly version: number
  readonly incarnation: number
  readonly policies: readonly RegionPolicy[]
}

/** Reads the policies that the sync daemon keeps in Redis. `readSince` gives null when nothing changed. */
export interface PolicyReader {
  readVersion(): Promise<number>
  readAll(): Promise<RegionPolicies>
}

/** Whether this Redis went on running since the daemon's scripts were loaded, and what it holds. */
export interface OpenedStore {
  readonly fence: number
  /** True when the check script is loaded under this server's present replication id. */
  readonly scriptsLoaded: boolean
  /** 0 when this Redis never had a daemon. */
  readonly incarnation: number
  readonly seqReserved: number
  readonly policyVersion: number
  readonly policyRevision: number
  readonly planePolicies: readonly Policy[]
  readonly members: readonly RegionId[]
  readonly pairs: Readonly<Record<RegionId, PairState>>
  readonly rows: readonly LedgerRow[]
  readonly storeOffsetMs: number
}

export interface Collected {
  readonly storeOffsetMs: number
  readonly samples: readonly Sample[]
  readonly noticed: readonly CounterId[]
  readonly usage: readonly {
    readonly limitId: number
    readonly usageEpoch: number
    readonly window: number
    readonly admitted: number
    readonly denied: number
    readonly returned: number
  }[]
}

/**
 * The sync daemon's view of its region's Redis, over one connection that never reconnects by itself.
 *
 * Every write carries the fence and is refused with QUOTA_FENCED under a newer one. A write without a reply
 * leaves the daemon in doubt: it must `open` again (a new fence) before it publishes or writes.
 */
export interface RegionStore {
  /** Takes or renews the leadership of the region for `ttlMs`; false while another holder has it. */
  claimLeadership(holder: string, ttlMs: number): Promise<boolean>
  releaseLeadership(holder: string): Promise<void>
  /** Raises the fence in every slot group first, then reads. */
  open(): Promise<OpenedStore>
  /**
   * Loads the scripts for a new boot: levels start again at `startUs` (0: buckets may begin full), rows of
   * another incarnation do not count.
   */
  begin(boot: {
    readonly incarnation: number
    readonly startMs: number | null
    readonly recovering: boolean
  }): Promise<void>
  reserveSeq(upTo: number): Promise<void>
  collect(): Promise<Collected>
  writePairs(pairs: Readonly<Record<RegionId, PairState>>): Promise<void>
  writeShares(writes: readonly ShareWrite[]): Promise<ReadonlyMap<CounterId, ShareOutcome>>
  /** Makes `policies` the region's policies, all at one version, and refuses checks under an older one. */
  writePolicies(change: {
    readonly revision: number
    readonly members: readonly RegionId[]
    readonly plane: readonly Policy[]
    readonly region: readonly RegionPolicy[]
    readonly recovering: boolean
  }): Promise<number>
}

/** Carries records between regions; loses, repeats and reorders as it likes. */
export interface RecordBus {
  publish(record: RegionRecord): void
  onRecord(handle: (record: RegionRecord) => void): void
}
