import { SILENT_AFTER_MS } from '../../shared/core/ledger/constants.ts'
import type { LedgerState } from '../../shared/core/ledger/state.ts'
import type { RegionRecord, UsageRow } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'
import {
  createUsageTable,
  mergeForeign,
  pruneUsage,
  publishOwn,
  recordOwn,
  type UsageCount,
  type UsageRules,
  type UsageTable,
} from '../../shared/core/usage/usage-table.ts'
import { USAGE_ROWS_MAX } from '../../shared/protocol/record.ts'

/**
 * Each such record carries all own usage that is kept, for listeners that acknowledge nothing, such as admin: a
 * record that they missed is repaired within a quarter of a minute.
 */
const FULL_USAGE_EVERY = 16

/**
 * Usage of this region and of its peers, as this daemon has heard of it.
 *
 * Redis counts from nothing again when it lost its data under a daemon that kept its memory; the incarnation is
 * the same then, and a lower count would be taken for an old one until it has caught up. So what was counted
 * before, and is not in Redis any more, is carried and added.
 */
export class UsageBook {
  table: UsageTable
  #carried: ReadonlyMap<string, UsageCount> = new Map()

  constructor(region: RegionId) {
    this.table = createUsageTable(region)
  }

  /** Takes in what this region's Redis counted. */
  countOwn(ledger: LedgerState, rows: readonly UsageRow[], nowMs: number): void {
    const { incarnation } = ledger
    const whole = rows.map((row) => plus(row, this.#carried.get(windowKey(row))))
    this.table = recordOwn(this.table, { incarnation, rows: whole }, rulesOf(ledger, nowMs))
  }

  /** Begins to carry what `rows`, all that Redis still has, lack of what was counted. */
  carry({ self, incarnation }: LedgerState, rows: readonly UsageRow[]): void {
    const left = new Map(rows.map((row) => [windowKey(row), row]))
    const carried = new Map<string, UsageCount>()
    for (const window of this.table.own.values()) {
      const counted = window.counts.get(self)?.get(incarnation)
      const key = windowKey(window)
      if (counted !== undefined) carried.set(key, minus(counted, left.get(key)))
    }
    this.#carried = carried
  }

  /** Counts a region's incarnation anew: nothing that an earlier one counted belongs to it. */
  carryNothing(): void {
    this.#carried = new Map()
  }

  /** Takes in what a peer counted, also from a record that is older than the last: figures only grow. */
  countForeign(
    ledger: LedgerState,
    { from: region, mark, usage: rows }: RegionRecord,
    nowMs: number,
  ): void {
    if (!ledger.members.includes(region)) return
    const report = { region, incarnation: mark.incarnation, rows }
    this.table = mergeForeign(this.table, report, rulesOf(ledger, nowMs))
  }

  forgetOld(ledger: LedgerState, nowMs: number): void {
    this.table = pruneUsage(this.table, rulesOf(ledger, nowMs))
    if (this.#carried.size === 0) return
    const kept = new Set([...this.table.own.values()].map(windowKey))
    this.#carried = new Map([...this.#carried].filter(([key]) => kept.has(key)))
  }

  /** Own usage for the next record: what some peer in reach may not have; now and then all there is. */
  take(ledger: LedgerState, nowMs: number): readonly UsageRow[] {
    const { incarnation, nextSeq: seq } = ledger
    const ackedSeq = seq % FULL_USAGE_EVERY === 0 ? -1 : newestAcked(ledger, nowMs)
    const { table, rows } = publishOwn(this.table, { incarnation, seq, ackedSeq })
    this.table = table
    return rows.slice(-USAGE_ROWS_MAX)
  }
}

/** What decides which usage is counted, by the clock that labels windows. */
function rulesOf(ledger: LedgerState, nowMs: number): UsageRules {
  return { limits: ledger.limits ?? new Map(), wallMs: nowMs + ledger.storeOffsetMs }
}

/** The newest record of this session that every peer in reach has processed. */
function newestAcked(ledger: LedgerState, nowMs: number): number {
  const { self, heard, incarnation, fence, nextSeq } = ledger
  let acked = nextSeq - 1
  for (const { record, atMs } of heard.values()) {
    if (nowMs - atMs >= SILENT_AFTER_MS) continue
    const ack = record.acks[self]
    const isPresent = ack?.incarnation === incarnation && ack.fence === fence
    acked = Math.min(acked, isPresent ? ack.seq : -1)
  }
  return acked
}

function plus(row: UsageRow, more: UsageCount | undefined): UsageRow {
  if (more === undefined) return row
  return {
    ...row,
    admitted: row.admitted + more.admitted,
    denied: row.denied + more.denied,
    returned: row.returned + more.returned,
  }
}

function minus(count: UsageCount, less: UsageCount | undefined): UsageCount {
  return {
    admitted: Math.max(0, count.admitted - (less?.admitted ?? 0)),
    denied: Math.max(0, count.denied - (less?.denied ?? 0)),
    returned: Math.max(0, count.returned - (less?.returned ?? 0)),
  }
}

function windowKey(of: {
  readonly limitId: number
  readonly usageEpoch: number
  readonly window: number
}): string {
  return `${of.limitId}.${of.usageEpoch}:${of.window}`
}
