/**
 * The lending protocol's vocabulary: what a region keeps, what it hears, and what it asks its daemon to do.
 *
 * The ledger is a pure state machine. It is given events and the daemon's monotonic clock, and answers with a
 * new state and effects. The daemon handles one event at a time and carries its effects out in order; the
 * simulator does the same with virtual time.
 */
import type { CounterId } from '../descriptor.ts'
import type { Algorithm, BaseSplit, RegionId } from '../policy.ts'

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
  readonly burst: number
  readonly usageEpoch: number
  readonly epoch: number
  readonly base: BaseSplit
  readonly previousBase: BaseSplit | null
  readonly floorPercent: number
}

/** What this region lent one peer of one key in the present term of the pair. Units; `lent >= returned`. */
export interface LentRow {
  readonly term: number
  readonly born: number
  readonly lent: number
  readonly returned: number
}

/** What this region borrowed from one peer of one key. `returned` is this region's own figure. */
export interface BorrowedRow {
  readonly incarnation: number
  readonly term: number
  readonly born: number
  readonly lent: number
  readonly returned: number
}

/** Units taken back from a lapsed loan that may not be used yet, until an instant of the daemon's clock. */
export interface Quarantine {
  readonly units: number
  readonly untilMs: number
}

/** The ledger of one key, stored with its share in one atomic write. */
export interface LedgerRow {
  readonly id: CounterId
  readonly lent: Readonly<Record<RegionId, LentRow>>
  readonly borrowed: Readonly<Record<RegionId, BorrowedRow>>
  readonly quarantine: readonly Quarantine[]
  /** Newest record at which a borrowed row from this peer was dropped: only a newer record may create one. */
  readonly dropped: Readonly<Record<RegionId, RecordMark>>
}

/** The state of a directed pair of regions as this region keeps it, durable before anything that rests on it. */
export interface PairState {
  /** As lender to the peer. `borrowerIncarnation` 0: nothing may be lent in this term yet. */
  readonly lend: {
    readonly term: number
    readonly borrowerIncarnation: number
    readonly born: number
  }
  /** As borrower from the peer. `dead`: this term's loans have lapsed and are never used again. */
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
  /** Per borrower: the pair's `born` at the first loan, and units lent in the present term. */
  readonly lent: Readonly<Record<RegionId, readonly [born: number, units: number]>>
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
 */
export type LedgerEffect =
  | { readonly kind: 'write-pairs'; readonly pairs: Readonly<Record<RegionId, PairState>> }
  | { readonly kind: 'write-shares'; readonly writes: readonly ShareWrite[] }
  /** Base parts of this region changed (epoch adopted or grown, recovery ended): rewrite the region's policy. */
  | {
      readonly kind: 'write-homes'
      readonly homes: ReadonlyMap<number, number>
      readonly recovering: boolean
    }
  /** Publish a record soon (`urgent`) or with the tick. The daemon spaces urgent records. */
  | { readonly kind: 'publish'; readonly urgent: boolean }

/**
 * What the daemon knew of its past when it started.
 *
 * `first`: the region never had an incarnation before, so nobody owes it or is owed anything.
 * `kept`: this Redis kept running and its scripts are loaded: the rows and pairs read are the truth.
 * `held`: Redis restarted while this daemon kept its lease and its memory: its own rows and pairs are the truth.
 * `lost`: neither; the region recovers under a new incarnation (amnesia).
 */
export type Continuity = 'first' | 'kept' | 'held' | 'lost'

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
    }
  /** The policy snapshot changed. `members`: every region of the plane that was not removed. */
  | {
      readonly kind: 'limits'
      readonly policyRevision: number
      readonly limits: ReadonlyMap<number, LedgerLimit>
      readonly members: readonly RegionId[]
    }
  /** A reading of this region's Redis: tracked keys, and untracked ones that ran short (`noticed`). */
  | {
      readonly kind: 'measured'
      readonly storeOffsetMs: number
      readonly samples: readonly Sample[]
      readonly noticed: readonly CounterId[]
    }
  | { readonly kind: 'record'; readonly record: RegionRecord }
  /** The replies to the last `write-shares`, by key. */
  | { readonly kind: 'shares-written'; readonly outcomes: ReadonlyMap<CounterId, ShareOutcome> }
  | { readonly kind: 'tick' }
