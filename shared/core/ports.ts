/**
 * What the use cases need of the outside, in the words of the domain. Adapters live in shared/redis,
 * shared/nats and shared/postgres; each port has a contract suite in test/contract.
 */
import type { CheckTokens } from './check-tokens.ts'
import type { CounterId } from './descriptor.ts'
import type { Count, CountReport } from './estimate/count-table.ts'
import type {
  LedgerRow,
  PairState,
  RecordMark,
  RegionRecord,
  Sample,
  ShareOutcome,
  ShareWrite,
  UsageRow,
} from './ledger/types.ts'
import type {
  Policy,
  RegionId,
  RegionLimit,
  RegionPolicy,
  RegionPolicySpec,
  StockWindow,
} from './policy.ts'
import type { EnforcerStatus } from './rollout.ts'

/** One limit to decide for one check: which numbers apply and which counter. */
export interface CheckTarget {
  readonly limit: RegionLimit
  readonly counter: CounterId
  /** What a store remembers of a target that is asked for again; nobody else's concern. */
  notes?: unknown
}

/** The limits of one check, all of one slot group, decided all or none; cost 0 reads without changing. */
export interface GroupCheck {
  readonly group: number
  readonly targets: readonly CheckTarget[]
  readonly cost: number
  /** Who asks; a concurrency limit needs it, because tokens are held by it. One that holds already passes again. */
  readonly requestId?: string | undefined
}

/**
 * A check of one target that is told of its decision without a promise: exactly one of its methods is called once.
 * `requestId` is not known, so its limit counts no holders.
 */
export interface SoleCheck {
  readonly group: number
  readonly target: CheckTarget
  readonly cost: number
  readonly version: number
  /** `atUs`: as of `CheckAnswer`. */
  decided(decision: LimitDecision, atUs: number): void
  failed(err: unknown): void
}

/** A check of a request that can be told from all others by its id. */
export type RequestCheck = GroupCheck & { readonly requestId: string }

/** What became of a refund; `credited` says of each target whether anything was. */
export interface RefundAnswer {
  /** `repeated`: this request was refunded before. `too_late`: it was admitted more than an hour ago. */
  readonly outcome: 'refunded' | 'repeated' | 'too_late'
  readonly credited: readonly boolean[]
}

/** Tokens that each target had free again: 0 where the request held none (any more), or where none are held. */
export interface ReleaseAnswer {
  readonly released: readonly number[]
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

/** The decisions of one check, one for each target in order, all taken at `atUs` (Redis TIME). */
export interface CheckAnswer {
  readonly atUs: number
  readonly decisions: readonly LimitDecision[]
}

/**
 * The enforcer's view of its region's Redis.
 *
 * `check` is not idempotent. It rejects with QUOTA_STORE_UNAVAILABLE when Redis does not answer within the
 * deadline (the check may or may not have counted) or its scripts are not loaded (nothing counted), with
 * QUOTA_POLICY_STALE when the region has a newer policy version than `version` (nothing counted), and with
 * QUOTA_OVERLOADED when too many checks wait already (nothing counted).
 */
export interface CheckStore {
  /** Decides all targets or none: tokens are taken only when every target allows. */
  check(check: GroupCheck, version: number): Promise<CheckAnswer>
  /** As `check` of one target, for those that are asked for most often. */
  ask(check: SoleCheck): void
  /**
   * Gives the tokens of an admitted check back; `atUs` is that check's answer. Never above capacity, never into
   * another window, never into a bucket what it refilled since by itself, never for a counter that has expired. At
   * most once: it is not repeated on failure.
   */
  giveBack(check: GroupCheck, version: number, atUs: number): Promise<void>
  /**
   * As `giveBack`, once for each request id and slot group however often it is asked for: repeat it on failure. What
   * holders hold is not refunded but released.
   */
  refund(check: RequestCheck, version: number, atUs: number): Promise<RefundAnswer>
  /** Frees what the request holds of concurrency limits; passes over other limits. Idempotent. */
  release(check: RequestCheck, version: number): Promise<ReleaseAnswer>
}

/** One block of tokens that an enforcer asks for, or gives back. `id` is new for each, over all enforcers. */
export interface LeaseAsk {
  readonly id: string
  readonly group: number
  readonly target: CheckTarget
  readonly tokens: number
}

export interface LeaseGrant {
  /** 0: there is nothing to lease at present. */
  readonly tokens: number
  /** Instant of the grant, Redis TIME. */
  readonly atUs: number
  /** How long the block may be spent, counted from the sending of the request; shorter where its window ends. */
  readonly lifeMs: number
  /** What the counter itself can still admit, and when it is full again. */
  readonly remaining: number
  readonly resetMs: number
}

/**
 * Takes blocks of tokens ahead, under the rule of `core/lease.ts`.
 *
 * Both reject as `CheckStore.check` does. Neither is repeated on failure: tokens whose grant got lost are stranded
 * until their bucket refills or their window ends.
 */
export interface LeaseStore {
  /** Null where the limit holds too little to be leased. */
  grant(ask: LeaseAsk, version: number): Promise<LeaseGrant | null>
  /** Gives back what is left of a block; at most once, never after its life, never above what the counter may hold. */
  giveUp(left: LeaseAsk, version: number): Promise<void>
}

/** Tokens that were asked for and denied, of one counter. */
export interface Denial {
  readonly target: CheckTarget
  readonly tokens: number
}

/** Takes down what enforcers denied without asking, so that it counts as demand. */
export interface DenialLog {
  /**
   * Of counters of one slot group, each once. Rejects with QUOTA_STORE_UNAVAILABLE, and must not be repeated then: it
   * may have counted.
   */
  note(group: number, denials: readonly Denial[], version: number): Promise<void>
}

/** What the region's Redis does when its memory is full. */
export interface StoreMemory {
  /** The name of its policy, where that throws keys away; null where writes are refused instead. */
  readonly evicts: string | null
  /** Keys thrown away since its start. */
  readonly evictedKeys: number
}

export interface StoreMemoryReader {
  /** Rejects with QUOTA_STORE_UNAVAILABLE. */
  read(): Promise<StoreMemory>
}

/** Compares the clock of the region's Redis, which alone decides, with this host's. */
export interface StoreClockReader {
  /**
   * By how much the clock of Redis is ahead, ms; negative: behind. At least so much, for the way there and back only
   * makes it look less. Of several servers the one that is most off. Null where Redis does not let this process ask
   * for its time, and so cannot decide. Rejects with QUOTA_STORE_UNAVAILABLE.
   */
  readAheadMs(): Promise<number | null>
}

/** Who wants to know what happens in the region's Redis. Each message is told at most once. */
export interface NewsListener {
  /** This counter may admit more than it said: a refund, a returned lease, another share. */
  grown(counter: CounterId): void
  /** There are other policies. */
  policiesChanged(): void
  /** From now on everything is heard that happens. */
  heard(): void
  /** From now on nothing is heard, until `heard`. */
  silent(): void
}

/**
 * Which enforcers of a region are alive, so that each knows its part while Redis is away, and what each applies, so that
 * the region's daemon can tell.
 */
export interface EnforcerRoll {
  /** Says that this enforcer is alive and what it applies, and gives how many are. Rejects with QUOTA_STORE_UNAVAILABLE. */
  beat(status: EnforcerStatus): Promise<number>
  /** Takes `id` off the roll. Never rejects. */
  leave(id: string): Promise<void>
}

/** A region's policies as its enforcers read them; `version` grows with each change in the region. */
export interface RegionPolicies {
  readonly version: number
  readonly incarnation: number
  /** Plane revision that they are of; absent where no daemon has said. */
  readonly revision?: number
  /** Format that they are written in; absent: the first. */
  readonly format?: number
  readonly policies: readonly RegionPolicy[]
}

/**
 * Reads the policies that the sync daemon keeps in Redis; version 0 while there are none.
 *
 * Both reject with QUOTA_STORE_UNAVAILABLE. Compare versions for being different, not for being larger: a Redis
 * that lost its data begins again.
 */
export interface PolicyReader {
  /** The version, and the plane revision that it is of: the same version may be of a later revision too. */
  readHead(): Promise<{ readonly version: number; readonly revision: number }>
  /** All of them; what did not change since `known` is taken from it, the same objects. */
  readAll(known?: RegionPolicies | null): Promise<RegionPolicies>
}

/** Reads the tokens for checks that the sync daemon keeps in Redis. */
export interface CheckTokenReader {
  /** What is there, or null where it is of `knownAsOfMs` or nothing is there. Rejects with QUOTA_STORE_UNAVAILABLE. */
  readOther(knownAsOfMs: number | null): Promise<CheckTokens | null>
}

/** Whether this Redis went on running since the daemon's scripts were loaded, and what it holds. */
export interface OpenedStore {
  readonly fence: number
  /**
   * True when the check scripts are loaded under this server's present replication id and no slot group has
   * lost its state: enforcers are being served, and what was read is the truth.
   */
  readonly scriptsLoaded: boolean
  /** 0 when this Redis never had a daemon. */
  readonly incarnation: number
  /** True when that incarnation had not yet recovered from amnesia: its wait must begin again. */
  readonly recovering: boolean
  readonly seqReserved: number
  readonly policyVersion: number
  readonly policyRevision: number
  /** Of which instant its tokens for checks are; 0 without any. */
  readonly checkTokensAsOfMs: number
  readonly planePolicies: readonly Policy[]
  readonly members: readonly RegionId[]
  readonly pairs: Readonly<Record<RegionId, PairState>>
  readonly rows: readonly LedgerRow[]
  /** Open windows of limits that are stock, as the region's policies have them; by limit id and usage epoch. */
  readonly stock: ReadonlyMap<string, readonly StockWindow[]>
  /** Redis TIME minus the daemon's clock, never more than the true difference. */
  readonly storeOffsetMs: number
  /** Instant of the last boot by Redis TIME, from which levels began empty; 0 where they were full from the first. */
  readonly bootedAtStoreMs: number
}

export interface Collected {
  readonly storeOffsetMs: number
  readonly samples: readonly Sample[]
  /** Untracked keys that denied or ran low since the last reading; each is named again while it stays so. */
  readonly noticed: readonly CounterId[]
  /** Tracked keys whose share is not in Redis (expired, or deleted by someone): write it or untrack the key. */
  readonly missing: readonly CounterId[]
  /** Those of `missing` whose share is there and is not what a daemon writes; it admits nothing until it is written. */
  readonly corrupt: readonly CounterId[]
  /** Own usage of the windows touched since the last reading, cumulative per window. */
  readonly usage: readonly UsageRow[]
}

/**
 * What admin has allotted to this region of one counter of a long window: `from` before the answer, `to` with it.
 * `low`: tokens left below which the counter is noticed again; null when there is nothing more to be had.
 */
export interface StockAdd {
  readonly id: CounterId
  readonly startMs: number
  readonly from: number
  readonly to: number
  readonly low: number | null
}

/**
 * The sync daemon's view of its region's Redis, over one connection that never reconnects by itself.
 *
 * Every write carries the fence and rejects with QUOTA_FENCED under a newer one, or where the store has lost the
 * fence. A write without a reply (QUOTA_STORE_UNAVAILABLE) leaves the store in doubt: from then on every method
 * but `claimLeadership`, `releaseLeadership`, `open` and `close` rejects with QUOTA_FENCED until `open` has taken
 * a new fence.
 */
export interface RegionStore {
  /** Takes or renews the leadership of the region for `ttlMs`; false while another holder has it. */
  claimLeadership(holder: string, ttlMs: number): Promise<boolean>
  releaseLeadership(holder: string): Promise<void>
  /** Raises the fence in every slot group first, then reads. Changes nothing that enforcers see. */
  open(pause?: () => Promise<void>): Promise<OpenedStore>
  /**
   * Starts a new boot in every slot group and stops serving checks until `serve`. Shares of another incarnation
   * do not count any more. `levels` empty: buckets start again at zero, running windows count as full; full:
   * only where this region never admitted anything. Once per opening; left out where the store was kept.
   */
  begin(boot: {
    readonly incarnation: number
    readonly levels: 'empty' | 'full'
    readonly recovering: boolean
  }): Promise<void>
  /**
   * Loads the check scripts under this server's replication id and serves checks with them. Called once policies
   * and shares are as they should be; repeating it is harmless.
   */
  serve(): Promise<void>
  /** Sequence numbers below `upTo` may be used once this resolves. */
  reserveSeq(upTo: number): Promise<void>
  collect(): Promise<Collected>
  writePairs(pairs: Readonly<Record<RegionId, PairState>>): Promise<void>
  /** Each share and its ledger row in one atomic write; a row null removes both. Outcomes by key. */
  writeShares(writes: readonly ShareWrite[]): Promise<ReadonlyMap<CounterId, ShareOutcome>>
  /**
   * Adds what was allotted to counters of long windows, by answers to questions asked since `open`. Those of a window
   * that is over, and of limits that the region's policies do not hold as stock, are left out.
   */
  addStock(adds: readonly StockAdd[]): Promise<void>
  /**
   * Tells counters of eventual policies what all other regions are known to have admitted in a window, and gives what
   * this one has in its own. Idempotent; what was told only grows. Limits that are no estimates are left out.
   */
  exchangeCounts(known: readonly Count[]): Promise<readonly Count[]>
  /** What live enforcers said last, at most as many as a report lists; and how many more there are. */
  readEnforcers(): Promise<{
    readonly enforcers: readonly EnforcerStatus[]
    readonly unlisted: number
  }>
  /**
   * Makes `region` the region's policies and refuses checks under an older version once it resolves; gives the
   * new version. While `recovering`, every limit has nothing in place of its home.
   *
   * Thousands of policies are worked through in parts, with `pause` between them; what it rejects with ends the call.
   */
  writePolicies(
    change: {
      readonly revision: number
      readonly members: readonly RegionId[]
      readonly plane: Iterable<Policy>
      readonly region: Iterable<RegionPolicySpec>
      readonly recovering: boolean
    },
    pause?: () => Promise<void>,
  ): Promise<number>
  /** Replaces the tokens for checks, all in one step. */
  writeCheckTokens(tokens: CheckTokens): Promise<void>
  close(): Promise<void>
}

/** Sequence numbers of the records on which one may rest: what did not change since is not said again; -1: all is. */
export interface RecordSince {
  readonly rows: number
  readonly usage: number
}

/** Carries counts of eventual policies between regions; loses, repeats and reorders as it likes. */
export interface CountBus {
  publish(report: CountReport): void
  onReport(handle: (report: CountReport) => void): void
}

/**
 * Carries records between regions; loses, repeats and reorders as it likes, but hands on nothing that is not exactly
 * a record that its sender published, and of each sender only newer ones.
 */
export interface RecordBus {
  /** What those in reach have already, by their acknowledgements; asked once for each record, just before. */
  sinceFor(self: RegionId, mark: RecordMark): RecordSince
  /** Sends now or not at all; never throws for the bus's sake. The record's usage is what changed since `since`. */
  publish(record: RegionRecord, since: RecordSince): void
  onRecord(handle: (record: RegionRecord) => void): void
  /** Called when a listener needs a whole record: the next one is whole, and soon is better than late. */
  onQuestion(handle: () => void): void
}
