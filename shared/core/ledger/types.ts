/**
 * The lending protocol's vocabulary: what a region keeps, what it hears, and what it asks its daemon to do.
 *
 * The ledger is a pure state machine. It is given events and the daemon's monotonic clock, and answers with a
 * new state and effects. The daemon handles one event at a time and carries its effects out in order; the
 * simulator does the same with virtual time.
 */
import type { CounterId } from '../descriptor.ts'
import type { Algorithm, BaseSplit, Calendar, Lending, Objective, RegionId } from '../policy.ts'

/** Orders the records of one region: a later incarnation, then a later fence, then a later sequence number. */
export interface RecordMark {
  readonly incarnation: number
  readonly fence: number
  readonly seq: number
}

/** The numbers of a limit that the ledger needs; the same in every region for one policy revision. */
export interface LedgerLimit {
  readonly id: number
  readonly algorithm: Algorithm
  readonly capacity: number
  readonly windowMs: number
  /** Not null: windows end where a calendar says, after `windowMs` at most. */
  readonly calendar?: Calendar | null
  readonly burst: number
  readonly usageEpoch: number
  readonly epoch: number
  readonly base: BaseSplit
  readonly previousBase: BaseSplit | null
  readonly floorPercent: number
  /** `max-min` when left out. */
  readonly objective?: Objective
  /** `free` when left out. */
  readonly lending?: Lending
}

/**
 * What this region lent one peer of one key in one term of the pair. Units; `lent >= returned`.
 *
 * A row of an earlier term than the pair's counts as lent until it is rewritten: that is what makes it safe to
 * store the pair's next term before the keys' rows.
 */
export interface LentRow {
  readonly term: number
  readonly born: number
  readonly lent: number
  readonly returned: number
}

/**
 * What this region borrowed from one peer of one key. `returned` is this region's own figure. Worth something
 * only in the pair's present incarnation and term, while that is not dead and its lease runs.
 */
export interface BorrowedRow {
  readonly incarnation: number
  readonly term: number
  readonly born: number
  readonly lent: number
  readonly returned: number
}

/**
 * Units taken back from a lapsed loan that may not be used before `untilStoreMs`, an instant of the clock that
 * labels windows (Redis TIME): so it means the same to the daemon's successor, whose own clock starts anew.
 */
export interface Quarantine {
  readonly units: number
  readonly untilStoreMs: number
}

/** The ledger of one key, stored with its share in one atomic write. */
export interface LedgerRow {
  readonly id: CounterId
  readonly lent: Readonly<Record<RegionId, LentRow>>
  readonly borrowed: Readonly<Record<RegionId, BorrowedRow>>
  readonly quarantine: readonly Quarantine[]
}

/** The state of a directed pair of regions as this region keeps it, durable before anything that rests on it. */
export interface PairState {
  /** As lender to the peer. `borrowerIncarnation` 0: nothing may be lent in this term yet. */
  readonly lend: {
    readonly term: number
    readonly borrowerIncarnation: number
    readonly born: number
  }
  /**
   * As borrower from the peer. `dead`: this term's loans have lapsed and are never used again. `incarnation` is the
   * latest of the peer that was ever heard of: of what an earlier one lent nothing is used any more, whichever
   * record may still come, and records say so. A peer that lost its memory waits for just that.
   */
  readonly borrow: { readonly incarnation: number; readonly term: number; readonly dead: boolean }
}

/** What a region says of one key in a record. Every figure is cumulative. */
export interface RecordRow {
  readonly id: CounterId
  /** Units this region may use at the time of the record, loans included. For views and the self-audit. */
  readonly share: number
  /** Expected need, millitokens a second. */
  readonly demand: number
  readonly hungry: boolean
  /** Tokens of this key since the region began to track it (PN: `admitted - returned` is usage). */
  readonly admitted: number
  readonly denied: number
  readonly returned: number
  /** Units taken back from lapsed loans that the region may not use yet. */
  readonly quarantined: number
  /** Per borrower: the row's `born`, units lent in the present term, and how many of them came back. */
  readonly lent: Readonly<
    Record<RegionId, readonly [born: number, units: number, returned: number]>
  >
  /** Per lender: the row's `born`, and units given back in the present term. */
  readonly gaveBack: Readonly<Record<RegionId, readonly [born: number, units: number]>>
}

/** Usage of one limit in one window in one region; merged by max per incarnation. */
export interface UsageRow {
  readonly limitId: number
  readonly usageEpoch: number
  /** Index of the window: floor(time / usageWindowMs(windowMs)). */
  readonly window: number
  readonly admitted: number
  readonly denied: number
  readonly returned: number
}

/** One region's record: everything it says to its peers. It writes only its own. */
export interface RegionRecord {
  readonly from: RegionId
  readonly mark: RecordMark
  readonly policyRevision: number
  readonly recovering: boolean
  /** Per limit with an open epoch: the newest epoch that this region has adopted. */
  readonly adopted: Readonly<Record<string, number>>
  /** Newest record that this region has processed from each peer; empty while recovering. */
  readonly acks: Readonly<Record<RegionId, RecordMark>>
  readonly pairs: Readonly<
    Record<
      RegionId,
      {
        readonly lend: readonly [term: number, borrowerIncarnation: number]
        readonly borrow: readonly [incarnation: number, term: number, dead: 0 | 1]
      }
    >
  >
  readonly rows: readonly RecordRow[]
  readonly usage: readonly UsageRow[]
}

/** What the daemon read of one tracked key in its Redis. Figures are cumulative since tracking began. */
export interface Sample {
  readonly id: CounterId
  readonly admitted: number
  readonly denied: number
  readonly returned: number
}

/**
 * The share of one key to be written, with its ledger row, in one script.
 *
 * `shrinks` true: the script must refuse (`occupied`) where the window's count does not fit the new share.
 * `expiresAtMs` is on the daemon's clock; null while nothing is borrowed. `row` null: stop tracking the key.
 */
export interface ShareWrite {
  readonly id: CounterId
  readonly home: number
  readonly borrowed: number
  readonly expiresAtMs: number | null
  readonly shrinks: boolean
  /** A key with anything lent, borrowed or quarantined may not expire. */
  readonly pinned: boolean
  readonly row: LedgerRow | null
}

export type ShareOutcome = 'written' | 'occupied'

/**
 * What the ledger asks its daemon to do, in order. Each is complete (the replies received under the present
 * fence) before the next begins and before any other event is handled.
 *
 * One step gives at most one of each kind and always in the order below. `write-shares` is the last of its step:
 * the daemon answers it with `shares-written`, and that step asks for the record that tells of it. A write that
 * fails or gets no reply is answered with `started` instead, once the store is open again under a new fence.
 */
export type LedgerEffect =
  /** The pairs that changed. Before the shares: a term is durable before anything that rests on it. */
  | { readonly kind: 'write-pairs'; readonly pairs: Readonly<Record<RegionId, PairState>> }
  /**
   * All home parts in units (what a key without loans may use), by limit id, when one of them changed, the limits did or
   * a recovery ended: rewrite the region's policies.
   */
  | {
      readonly kind: 'write-homes'
      readonly homes: ReadonlyMap<number, number>
      readonly recovering: boolean
    }
  | { readonly kind: 'write-shares'; readonly writes: readonly ShareWrite[] }
  /** Publish a record soon (`urgent`) or with the tick. The daemon spaces urgent records. */
  | { readonly kind: 'publish'; readonly urgent: boolean }

/**
 * What the daemon knew of its past when it started.
 *
 * `first`: the region never had an incarnation before, so nobody owes it or is owed anything.
 * `kept`: this Redis kept running and its scripts are loaded: the rows and pairs read are the truth. Also after
 * a write in doubt. A lease survives only in the state that the event meets: a state fresh from `createLedger`
 * knows none, so every borrowed term is dead; the state of a daemon that kept the leadership keeps its leases.
 * `held`: Redis restarted while this daemon kept its lease and its memory: its own rows and pairs are the truth
 * and all are written again.
 * `lost`: neither; the region recovers under a new incarnation (amnesia). The limits must be read again from
 * the plane's primary before the ledger acts: an old base split could already be another region's.
 */
export type Continuity = 'first' | 'kept' | 'held' | 'lost'

/** Who takes part in the plane, as of one of its revisions. */
export interface Membership {
  /** Every region that was registered and not removed. */
  readonly members: readonly RegionId[]
  /** Regions removed so lately that another may not have known and lent to them since. */
  readonly formerMembers: readonly RegionId[]
  /**
   * Regions that were removed unheard, on an operator's word: what their earlier incarnations knew is void, since
   * others have their part of the limits since. Such an incarnation is not believed any more, and must not go on.
   */
  readonly leastIncarnations: Readonly<Record<RegionId, number>>
}

export type LedgerEvent =
  | {
      readonly kind: 'started'
      readonly continuity: Continuity
      readonly incarnation: number
      readonly fence: number
      /** First sequence number that may be used (reserved ahead, so never used before). */
      readonly firstSeq: number
      readonly pairs: Readonly<Record<RegionId, PairState>>
      readonly rows: readonly LedgerRow[]
      /** Redis TIME minus the daemon's clock, ms; places window ends on the daemon's clock. */
      readonly storeOffsetMs: number
      /**
       * When the levels in this Redis began, by its clock (the boot instant that the scripts read); 0 where they
       * were full from the first. A daemon that begins afresh tells by it whether the windows may still be running
       * in which loans of a forgotten life were used.
       */
      readonly bootedAtStoreMs: number
    }
  /**
   * The policy snapshot changed. The ledger acts only once it has both `started` and `limits`, in either order; an
   * older revision than the last is ignored.
   */
  | (Membership & {
      readonly kind: 'limits'
      readonly policyRevision: number
      readonly limits: ReadonlyMap<number, LedgerLimit>
    })
  /** A reading of this region's Redis: tracked keys, and untracked ones that ran short (`noticed`). */
  | {
      readonly kind: 'measured'
      readonly storeOffsetMs: number
      readonly samples: readonly Sample[]
      readonly noticed: readonly CounterId[]
      /** Tracked keys whose share was not in Redis. */
      readonly missing: readonly CounterId[]
    }
  | { readonly kind: 'record'; readonly record: RegionRecord }
  /** The replies to the last `write-shares`, by key. */
  | { readonly kind: 'shares-written'; readonly outcomes: ReadonlyMap<CounterId, ShareOutcome> }
  | { readonly kind: 'tick' }
