/** What a region's ledger remembers. Everything is plain data; only `step` and `buildRecord` make the next one. */
import type { DemandEstimate } from '../allocation/demand.ts'
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import type { ToldRow } from './told-rows.ts'
import type {
  LedgerLimit,
  LedgerRow,
  PairState,
  RecordMark,
  RecordRow,
  RegionRecord,
} from './types.ts'

/** When a record of this region was sent; dates the leases of the loans that its acknowledgement renews. */
export interface SentRecord {
  readonly fence: number
  readonly atMs: number
}

/** The newest record heard from a peer. `rows` holds its rows by key, but for those that make no sense. */
export interface Heard {
  readonly record: RegionRecord
  readonly rows: ReadonlyMap<CounterId, RecordRow>
  /** This region's policy revision when it judged the rows. */
  readonly judgedBy: number
  readonly atMs: number
}

/** A pair with what is not stored of it: the lender's last acknowledgement, the borrower's lease. */
export interface Pair extends PairState {
  /** When the newest record that this region acknowledged in the present lending term arrived here. */
  readonly ackedAtMs: number
  /** End of the lease on everything borrowed in the present term; null before the first acknowledgement. */
  readonly untilMs: number | null
}

/** A share as the store last confirmed it. */
export interface WrittenShare {
  readonly home: number
  readonly borrowed: number
  readonly expiresAtMs: number | null
  readonly row: LedgerRow
}

/** One tracked key. */
export interface KeyState {
  readonly row: LedgerRow
  /** Null: the store does not hold this share yet, or lost it. */
  readonly written: WrittenShare | null
  readonly estimate: DemandEstimate | null
  /** Tokens given back so far, as last read. */
  readonly returned: number
  /** Since when this region has had no need of more than its own part; null while it has. */
  readonly coolSinceMs: number | null
  /** Most units to offer before this instant of the store's clock: the window was too full for more. */
  readonly offer: { readonly units: number; readonly untilStoreMs: number } | null
}

/** How far this region is with an open base epoch of one limit. */
export interface EpochProgress {
  readonly epoch: number
  /** A donor of windows has adopted once the window in which it shrank is over; null: not shrunk yet. */
  readonly drainedAtStoreMs: number | null
  /** Regions that were heard to have adopted this epoch. */
  readonly adoptedBy: ReadonlySet<RegionId>
}

/** Shares on their way to the store. `before`: the keys whose shrink may be refused, as they were before it. */
export interface PendingWrites {
  readonly written: ReadonlyMap<CounterId, WrittenShare | null>
  readonly before: ReadonlyMap<CounterId, KeyState>
  readonly publish: PublishNeed
}

export type PublishNeed = 'none' | 'tick' | 'urgent'

/** What was refused or ignored because only a bug or a forger can explain it; for the metrics and the log. */
export const ALARMS = [
  'own-record',
  'returned-above-lent',
  'lent-above-base',
  'units-above-pool',
  'unknown-term',
  'unknown-ack',
] as const
export type Alarm = (typeof ALARMS)[number]

/** What a peer last said that no honest ledger says. */
export interface Suspicion {
  readonly alarm: Alarm
  readonly atMs: number
}

export interface LedgerState {
  readonly self: RegionId
  /** 0 before `started`. */
  readonly incarnation: number
  readonly fence: number
  readonly nextSeq: number
  readonly sent: ReadonlyMap<number, SentRecord>
  readonly heard: ReadonlyMap<RegionId, Heard>
  readonly pairs: ReadonlyMap<RegionId, Pair>
  readonly keys: ReadonlyMap<CounterId, KeyState>
  /** The rows of the last record. */
  readonly told: ReadonlyMap<CounterId, ToldRow>
  /** Null before the first `limits`, and again after amnesia. */
  readonly limits: ReadonlyMap<number, LedgerLimit> | null
  readonly members: readonly RegionId[]
  readonly formerMembers: readonly RegionId[]
  readonly policyRevision: number
  readonly epochs: ReadonlyMap<number, EpochProgress>
  readonly storeOffsetMs: number
  /** Until then, after amnesia, the region uses nothing; null otherwise. */
  readonly recoveringUntilMs: number | null
  /** Limits of fixed windows of which nothing may be used until the window in which recovery ended is over. */
  readonly drains: ReadonlyMap<number, number>
  /** Boot instant of the store that a fresh daemon met; null once its limits were held against it. */
  readonly bootedAtStoreMs: number | null
  /** Home parts as the store last got them; null: never. */
  readonly homes: ReadonlyMap<number, number> | null
  readonly pending: PendingWrites | null
  readonly lastUrgentMs: number
  /** Keys that wait for the next round of rebalancing, and when the last one was. */
  readonly due: ReadonlySet<CounterId>
  readonly roundMs: number
  readonly alarms: Readonly<Record<Alarm, number>>
  readonly suspects: ReadonlyMap<RegionId, Suspicion>
  /** How often a key ran short and was not tracked because TRACKED_KEYS_MAX were. */
  readonly untrackedKeys: number
}

/** The ledger of a daemon that has just begun: it knows nothing until `started` and `limits`. */
export function createLedger(self: RegionId): LedgerState {
  return {
    self,
    incarnation: 0,
    fence: 0,
    nextSeq: 0,
    sent: new Map(),
    heard: new Map(),
    pairs: new Map(),
    keys: new Map(),
    told: new Map(),
    limits: null,
    members: [],
    formerMembers: [],
    policyRevision: -1,
    epochs: new Map(),
    storeOffsetMs: 0,
    recoveringUntilMs: null,
    drains: new Map(),
    bootedAtStoreMs: null,
    homes: null,
    pending: null,
    lastUrgentMs: Number.NEGATIVE_INFINITY,
    due: new Set(),
    roundMs: Number.NEGATIVE_INFINITY,
    alarms: {
      'own-record': 0,
      'returned-above-lent': 0,
      'lent-above-base': 0,
      'units-above-pool': 0,
      'unknown-term': 0,
      'unknown-ack': 0,
    },
    suspects: new Map(),
    untrackedKeys: 0,
  }
}

/** The state of a pair with a region that was never met. */
export const STRANGER: Pair = {
  lend: { term: 0, borrowerIncarnation: 0, born: 0 },
  borrow: { incarnation: 0, term: 0, dead: true },
  ackedAtMs: Number.NEGATIVE_INFINITY,
  untilMs: null,
}

/** True when `mark` is of a later record of the same region than `than`. */
export function isNewer(mark: RecordMark, than: RecordMark): boolean {
  if (mark.incarnation !== than.incarnation) return mark.incarnation > than.incarnation
  if (mark.fence !== than.fence) return mark.fence > than.fence
  return mark.seq > than.seq
}
