import { SILENT_AFTER_MS } from '../../shared/core/ledger/constants.ts'
import { createLedger, type LedgerState } from '../../shared/core/ledger/state.ts'
import type { HomePart, RegionRecord, UsageRow } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'
import {
  createUsageTable,
  mergeForeign,
  pruneUsage,
  publishOwn,
  recordOwn,
  type UsageRules,
  type UsageTable,
} from '../../shared/core/usage/usage-table.ts'
import { USAGE_ROWS_MAX } from '../../shared/protocol/record.ts'
import { EMPTY_PLANE, type Plane } from './plane.ts'

/**
 * Each such record carries all own usage that is kept, for listeners that acknowledge nothing, such as admin: a
 * record that they missed is repaired within a quarter of a minute.
 */
const FULL_USAGE_EVERY = 16

/** What this process knows of its region from one session to the next. */
export class RegionMemory {
  readonly region: RegionId
  ledger: LedgerState
  usage: UsageTable
  plane: Plane = EMPTY_PLANE
  /** The plane as Redis last confirmed it; null before. */
  writtenPlane: Plane | null = null
  homes: ReadonlyMap<number, HomePart> = new Map()
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
    this.usage = createUsageTable(region)
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

  /** What decides which usage is counted, by the clock that labels windows. */
  usageRules(nowMs: number): UsageRules {
    const limits = this.ledger.limits ?? new Map()
    return { limits, wallMs: nowMs + this.ledger.storeOffsetMs }
  }

  /** Takes in what this region's Redis counted. */
  countOwn(rows: readonly UsageRow[], nowMs: number): void {
    const { incarnation } = this.ledger
    this.usage = recordOwn(this.usage, { incarnation, rows }, this.usageRules(nowMs))
  }

  /** Takes in what a peer counted, also from a record that is older than the last: figures only grow. */
  countForeign({ from: region, mark, usage: rows }: RegionRecord, nowMs: number): void {
    if (!this.plane.members.includes(region)) return
    const report = { region, incarnation: mark.incarnation, rows }
    this.usage = mergeForeign(this.usage, report, this.usageRules(nowMs))
  }

  forgetOldUsage(nowMs: number): void {
    this.usage = pruneUsage(this.usage, this.usageRules(nowMs))
  }

  /** Own usage for the next record: what some peer in reach may not have; now and then all there is. */
  takeUsage(nowMs: number): readonly UsageRow[] {
    const { incarnation, nextSeq: seq } = this.ledger
    const ackedSeq = seq % FULL_USAGE_EVERY === 0 ? -1 : this.#ackedSeq(nowMs)
    const { table, rows } = publishOwn(this.usage, { incarnation, seq, ackedSeq })
    this.usage = table
    return rows.slice(-USAGE_ROWS_MAX)
  }

  #ackedSeq(nowMs: number): number {
    const { heard, incarnation, fence, nextSeq } = this.ledger
    let acked = nextSeq - 1
    for (const { record, atMs } of heard.values()) {
      if (nowMs - atMs >= SILENT_AFTER_MS) continue
      const ack = record.acks[this.region]
      const isPresent = ack?.incarnation === incarnation && ack.fence === fence
      acked = Math.min(acked, isPresent ? ack.seq : -1)
    }
    return acked
  }

  accepts(plane: Plane): boolean {
    if (this.freshSinceMs === null) return plane.revision > this.plane.revision
    return plane.askedAtMs >= this.freshSinceMs
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

const hungryRecords = new WeakMap<RegionRecord, boolean>()

/** True while this region or a peer that is heard denies. */
export function isAnyoneHungry(ledger: LedgerState, nowMs: number): boolean {
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
