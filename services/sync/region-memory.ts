import { MEASURE_FIRST_MS } from '../../shared/core/allocation/demand.ts'
import type { CheckTokens } from '../../shared/core/check-tokens.ts'
import { SILENT_AFTER_MS, URGENT_SPACING_MS } from '../../shared/core/ledger/constants.ts'
import { createLedger, type LedgerState } from '../../shared/core/ledger/state.ts'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'
import { CountExchange } from './count-exchange.ts'
import { OverAdmission } from './over-admission.ts'
import { EMPTY_PLANE, type InForce, inForceOf, type Plane } from './plane.ts'
import { RolloutBook } from './rollout-book.ts'
import { StockBook } from './stock-book.ts'
import { UsageBook } from './usage-book.ts'

/** How long a peer that said what cannot be stays suspect: long enough for whoever looks at readiness to see it. */
const SUSPECT_FOR_MS = 60_000

/** What this process knows of its region from one session to the next. */
export class RegionMemory {
  readonly region: RegionId
  ledger: LedgerState
  readonly usage: UsageBook
  readonly stock = new StockBook()
  readonly counts = new CountExchange()
  readonly rollout = new RolloutBook()
  readonly overAdmission = new OverAdmission()
  plane: Plane = EMPTY_PLANE
  /** Tokens for checks as this process wrote them last, or tried to; null before it did. */
  checkTokens: CheckTokens | null = null
  /** Of which instant those in Redis are, as far as is known. */
  storedTokensAsOfMs = 0
  /** What some plane came to under its emergency actions; see `inForceAt`. */
  #inForce: InForce = inForceOf(EMPTY_PLANE, 0)
  /** The plane as Redis last confirmed it; null before. */
  writtenPlane: Plane | null = null
  /** True once enforcers are served in the present session. */
  isServing = false
  homes: ReadonlyMap<number, number> = new Map()
  /** Whether Redis, as it last confirmed, has enforcers use nothing: what the region lent before is not known. */
  isRecovering = false
  /** The record last sent; the self-audit sums it with those heard. */
  ownRecord: RegionRecord | null = null
  /** Only a plane that was asked for since may be used: amnesia. Null when any will do. */
  freshSinceMs: number | null = null
  /** The highest incarnation of this region that a peer has spoken of. */
  incarnationHeard = 0

  constructor(region: RegionId) {
    this.region = region
    this.ledger = createLedger(region)
    this.usage = new UsageBook(region)
  }

  /** What `plane` comes to: as it was last worked out, or else at `storeMs`, an instant of Redis TIME. */
  inForce(storeMs: number): InForce {
    return this.#inForce.of === this.plane ? this.#inForce : this.renewInForce(storeMs)
  }

  /** Works out anew what `plane` comes to. */
  renewInForce(storeMs: number): InForce {
    this.#inForce = inForceOf(this.plane, storeMs)
    return this.#inForce
  }

  /** Forgets the ledger: another daemon may have led the region since it was right. */
  forgetLedger(): void {
    this.ledger = createLedger(this.region)
    this.writtenPlane = null
    this.ownRecord = null
  }

  /** True when there is a ledger that was led without a gap and can be written again. */
  get hasLedger(): boolean {
    return this.ledger.incarnation > 0
  }

  /** True while a peer lately said what only a bug or a forger explains. */
  isSuspect(peer: RegionId, nowMs: number): boolean {
    const suspicion = this.ledger.suspects.get(peer)
    return suspicion !== undefined && nowMs - suspicion.atMs < SUSPECT_FOR_MS
  }

  /** Peers that are suspect, with what they said. */
  suspects(nowMs: number): readonly string[] {
    return [...this.ledger.suspects]
      .filter(([peer]) => this.isSuspect(peer, nowMs))
      .map(([peer, { alarm }]) => `${peer}: ${alarm}`)
  }

  accepts(plane: Plane): boolean {
    if (this.freshSinceMs === null) return plane.revision > this.plane.revision
    return plane.askedAtMs >= this.freshSinceMs
  }

  /** True when the plane has given this region's part to others since: whatever it knows must not be used. */
  isVoidUnder(plane: Plane): boolean {
    const least = plane.leastIncarnations[this.region] ?? 0
    this.incarnationHeard = Math.max(this.incarnationHeard, least)
    return this.ledger.incarnation > 0 && least > this.ledger.incarnation
  }

  /** Notes what a peer says of this region; true when it knows a later incarnation than the present one. */
  isOutranked(record: RegionRecord): boolean {
    const heard = Math.max(
      record.acks[this.region]?.incarnation ?? 0,
      record.pairs[this.region]?.borrow[0] ?? 0,
    )
    this.incarnationHeard = Math.max(this.incarnationHeard, heard)
    return heard > this.ledger.incarnation
  }
}

/** How often the region's Redis is read when many keys are tracked and nobody is short: each costs a look. */
const MEASURE_INTERVAL_MS = 250

/**
 * While this region or a peer denies, the reading is what everybody waits for. So it is while not too many keys are
 * tracked, when it costs little: the key that runs short next is noticed this much sooner.
 */
const QUICK_MEASURE_INTERVAL_MS = 100

/** More keys than these are read less often in calm: a thousand take about a millisecond. */
const SOME_KEYS = 1_000

/**
 * Up to so many tracked keys a reading and a record are next to nothing, and each may follow the last one this soon.
 * A step of load is then followed a tenth of a second earlier; for a hundred keys it would nearly double the records.
 */
const FEW_KEYS = 20
const FEW_INTERVAL_MS = 50

/**
 * Of more tracked keys than these some key always turns hungry, so a record goes out as often as one may, and each
 * tells a change again until it is acknowledged. Half as many records then halve what a region sends and its peers
 * work through; a key's step is followed a tenth of a second later.
 */
const MANY_KEYS = 500
const MANY_SPACING_MS = 2 * URGENT_SPACING_MS

/** Each region hears all others: of a plane of fifty no more than 250 records a second, however short it is of tokens. */
const SPACING_MS_PER_PEER = 4

/** Least time between records that tell of something urgent. */
export function urgentSpacingMs(ledger: LedgerState): number {
  const { size } = ledger.keys
  const spacingMs = SPACING_MS_PER_PEER * (ledger.members.length - 1)
  if (size > MANY_KEYS) return Math.max(MANY_SPACING_MS, spacingMs)
  return Math.max(size <= FEW_KEYS ? FEW_INTERVAL_MS : URGENT_SPACING_MS, spacingMs)
}

/**
 * When the next reading of the region's Redis is due.
 *
 * A key that a peer ran short of is tracked in the middle of an interval. The peer waits for its first figure, which a
 * reading on time may come too early for; so the reading waits for it, once and by less than an interval.
 */
export function measureDueMs(
  ledger: LedgerState,
  at: { readonly measuredMs: number; readonly nowMs: number },
): number {
  const { size } = ledger.keys
  if (size > SOME_KEYS) {
    const isQuick = isAnyoneHungry(ledger, at.nowMs)
    return at.measuredMs + (isQuick ? QUICK_MEASURE_INTERVAL_MS : MEASURE_INTERVAL_MS)
  }
  const intervalMs = size <= FEW_KEYS ? FEW_INTERVAL_MS : QUICK_MEASURE_INTERVAL_MS
  const dueMs = at.measuredMs + intervalMs
  return Math.max(dueMs, Math.min(firstLookMs(ledger), dueMs + intervalMs))
}

/** When the first of the keys whose demand is not known yet has been tracked for long enough. */
function firstLookMs(ledger: LedgerState): number {
  let firstMs = Number.POSITIVE_INFINITY
  for (const { estimate } of ledger.keys.values()) {
    if (estimate?.perSecond === null) firstMs = Math.min(firstMs, estimate.atMs)
  }
  return Number.isFinite(firstMs) ? firstMs + MEASURE_FIRST_MS : 0
}

const hungryRecords = new WeakMap<RegionRecord, boolean>()

/** True while this region or a peer that is heard denies. */
function isAnyoneHungry(ledger: LedgerState, nowMs: number): boolean {
  for (const key of ledger.keys.values()) if (key.estimate?.hungry === true) return true
  for (const { record, atMs } of ledger.heard.values()) {
    if (nowMs - atMs < SILENT_AFTER_MS && isHungry(record)) return true
  }
  return false
}

/** Remembered per record, since it is asked ten times a second and a record has thousands of rows. */
function isHungry(record: RegionRecord): boolean {
  const known = hungryRecords.get(record)
  if (known !== undefined) return known
  const is = record.rows.some((row) => row.hungry)
  hungryRecords.set(record, is)
  return is
}
