/**
 * The self-audit: whether all regions' shares of a key sum to no more than the limit.
 *
 * Shares of different instants do not add up: a lender's record from before a loan and the borrower's from after
 * it show the loan twice. So only records that belong together are summed: none acknowledges a record of another
 * that is newer than the one held. Then each loan and return that shows on the receiving side also shows on the
 * giving side. One gap is left: a lease that lapses between two records of its borrower may show until the next.
 */
import { parseCounterId } from '../../shared/core/counter-id.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import { SILENT_AFTER_MS } from '../../shared/core/ledger/constants.ts'
import { isNewer, type LedgerState } from '../../shared/core/ledger/state.ts'
import type { RecordRow, RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'

/**
 * The largest sum of shares of one key over the pool, or null while the records do not belong together.
 *
 * Regions without a row for a key count with their base part; limits with an open epoch are left out, and so
 * are silent regions: a sum of fewer regions can only be lower.
 */
export function auditShares(ledger: LedgerState, own: RegionRecord, nowMs: number): number | null {
  const heard = [...ledger.heard.values()].filter(({ atMs }) => nowMs - atMs < SILENT_AFTER_MS)
  const records = [own, ...heard.map(({ record }) => record)]
  if (!belongTogether(records)) return null
  const rows = new Map<RegionId, ReadonlyMap<CounterId, RecordRow>>(
    heard.map((one) => [one.record.from, one.rows]),
  )
  rows.set(own.from, new Map(own.rows.map((row) => [row.id, row])))
  const ids = new Set(records.flatMap((record) => record.rows.map((row) => row.id)))
  let largest = 0
  for (const id of ids) largest = Math.max(largest, sumOf(id, rows, ledger))
  return largest / POOL_UNITS
}

function belongTogether(records: readonly RegionRecord[]): boolean {
  const marks = new Map(records.map((record) => [record.from, record.mark]))
  return records.every((record) =>
    Object.entries(record.acks).every(([region, ack]) => {
      const mark = marks.get(region)
      return mark === undefined || !isNewer(ack, mark)
    }),
  )
}

function sumOf(
  id: CounterId,
  rows: ReadonlyMap<RegionId, ReadonlyMap<CounterId, RecordRow>>,
  ledger: LedgerState,
): number {
  const limit = ledger.limits?.get(parseCounterId(id)?.limitId ?? -1)
  if (limit === undefined || limit.previousBase !== null) return 0
  let sum = 0
  for (const [region, byId] of rows) sum += byId.get(id)?.share ?? limit.base[region] ?? 0
  return sum
}
