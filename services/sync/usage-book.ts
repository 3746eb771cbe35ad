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
 * Usage of this region and of its peers, as this daemon has heard of it.
 *
 * What Redis counted and what belongs to the present incarnation differ after a boot. Redis may have lost counts
 * under a daemon that kept its memory: the incarnation is the same, and a lower count would be taken for an old
 * one until it has caught up. Or the incarnation is new over counts of the last one. So each boot notes by how
 * much to correct the windows that it found; these are few, and kept until the next boot.
 */
export class UsageBook {
  table: UsageTable
  #corrections: ReadonlyMap<string, UsageCount> = new Map()

  constructor(region: RegionId) {
    this.table = createUsageTable(region)
  }

  /** Takes in what this region's Redis counted. */
  countOwn(ledger: LedgerState, rows: readonly UsageRow[], nowMs: number): void {
    const { incarnation } = ledger
    const corrected = rows.map((row) => plus(row, this.#corrections.get(windowKey(row))))
    this.table = recordOwn(this.table, { incarnation, rows: corrected }, rulesOf(ledger, nowMs))
  }

  /** The same incarnation goes on over `rows`, all that Redis still has of what was counted. */
  goOn({ self, incarnation }: LedgerState, rows: readonly UsageRow[]): void {
    const left = new Map(rows.map((row) => [windowKey(row), row]))
    const missing = new Map<string, UsageCount>()
    for (const { limitId, usageEpoch, windows } of this.table.own.values()) {
      for (const [window, counts] of windows) {
        const counted = counts.get(self)?.get(incarnation)
        const key = windowKey({ limitId, usageEpoch, window })
        if (counted !== undefined) missing.set(key, minus(counted, left.get(key)))
      }
    }
    this.#corrections = missing
  }

  /** A new incarnation begins at nothing over `rows`, what Redis still has of an earlier one. */
  beginAnew(rows: readonly UsageRow[]): void {
    this.#corrections = new Map(
      rows.map((row) => [
        windowKey(row),
        { admitted: -row.admitted, denied: -row.denied, returned: -row.returned },
      ]),
    )
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
  }

  /** Own usage for the next record: what changed since the record `sinceSeq`; all that is kept where it is -1. */
  take({ incarnation, nextSeq: seq }: LedgerState, sinceSeq: number): readonly UsageRow[] {
    const { table, rows } = publishOwn(this.table, { incarnation, seq, ackedSeq: sinceSeq })
    this.table = table
    return rows.slice(-USAGE_ROWS_MAX)
  }
}

/** What decides which usage is counted, by the clock that labels windows. */
function rulesOf(ledger: LedgerState, nowMs: number): UsageRules {
  return { limits: ledger.limits ?? new Map(), wallMs: nowMs + ledger.storeOffsetMs }
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
