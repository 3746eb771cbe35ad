/** Arithmetic on one key's ledger row. */
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import type { Pair } from './state.ts'
import type { BorrowedRow, LedgerRow, LentRow, Quarantine } from './types.ts'

export function emptyRow(id: CounterId): LedgerRow {
  return { id, lent: {}, borrowed: {}, quarantine: [] }
}

/** True when nothing of this key is lent, borrowed or quarantined: only then may it be forgotten. */
export function isEmpty(row: LedgerRow): boolean {
  return (
    row.quarantine.length === 0 &&
    Object.keys(row.lent).length === 0 &&
    Object.keys(row.borrowed).length === 0
  )
}

/** Units lent to anybody and not seen to come back, rows of earlier terms included. */
export function outstandingOf(row: LedgerRow): number {
  return Object.values(row.lent).reduce((sum, loan) => sum + loan.lent - loan.returned, 0)
}

export function quarantinedOf(row: LedgerRow): number {
  return row.quarantine.reduce((sum, part) => sum + part.units, 0)
}

/** True while the lease on everything borrowed in the pair's present term runs. */
export function isLeased(pair: Pair, nowMs: number): boolean {
  return !pair.borrow.dead && pair.untilMs !== null && nowMs < pair.untilMs
}

/** True when the row belongs to the pair's present term, and that has not lapsed. */
export function isOfTerm(loan: BorrowedRow, pair: Pair | undefined): boolean {
  return (
    pair !== undefined &&
    !pair.borrow.dead &&
    loan.incarnation === pair.borrow.incarnation &&
    loan.term === pair.borrow.term
  )
}

/** What a key may use of what it borrowed, and when the first of those leases ends. */
export function heldOf(
  row: LedgerRow,
  pairs: ReadonlyMap<RegionId, Pair>,
  nowMs: number,
): { readonly units: number; readonly expiresAtMs: number | null } {
  let [units, expiresAtMs] = [0, Number.POSITIVE_INFINITY]
  for (const [lender, loan] of Object.entries(row.borrowed)) {
    const pair = pairs.get(lender)
    const held = heldFrom(loan, pair, nowMs)
    if (held === 0 || pair?.untilMs === null || pair === undefined) continue
    units += held
    expiresAtMs = Math.min(expiresAtMs, pair.untilMs)
  }
  return { units, expiresAtMs: units > 0 ? expiresAtMs : null }
}

export function heldFrom(
  loan: BorrowedRow | undefined,
  pair: Pair | undefined,
  nowMs: number,
): number {
  if (loan === undefined || pair === undefined || !isOfTerm(loan, pair)) return 0
  return isLeased(pair, nowMs) ? Math.max(0, loan.lent - loan.returned) : 0
}

export function withLent(row: LedgerRow, borrower: RegionId, loan: LentRow | null): LedgerRow {
  return { ...row, lent: withEntry(row.lent, borrower, loan) }
}

export function withBorrowed(
  row: LedgerRow,
  lender: RegionId,
  loan: BorrowedRow | null,
): LedgerRow {
  return { ...row, borrowed: withEntry(row.borrowed, lender, loan) }
}

/** Adds units to the quarantine; those that end together are one entry, so entries are as few as windows. */
export function withQuarantine(row: LedgerRow, part: Quarantine): LedgerRow {
  const same = row.quarantine.find((other) => other.untilStoreMs === part.untilStoreMs)
  const rest = row.quarantine.filter((other) => other !== same)
  const units = part.units + (same?.units ?? 0)
  return { ...row, quarantine: [...rest, { units, untilStoreMs: part.untilStoreMs }] }
}

function withEntry<Value>(
  entries: Readonly<Record<RegionId, Value>>,
  region: RegionId,
  value: Value | null,
): Readonly<Record<RegionId, Value>> {
  if (value !== null) return { ...entries, [region]: value }
  const { [region]: _gone, ...rest } = entries
  return rest
}
