import { LOAN_TTL_MS } from '../../../shared/core/ledger/constants.ts'
import type { RecordRow } from '../../../shared/core/ledger/types.ts'
import type { RegionId } from '../../../shared/core/policy.ts'
import { shareTokens } from '../../../shared/core/units.ts'
import type { SharesReply } from '../../../shared/protocol/admin-replies.ts'
import type { HeardRecord } from '../live-view.ts'
import type { MarkTimes } from '../mark-times.ts'

type Loan = SharesReply['limits'][number]['keys'][number]['loans'][number]

/** What one region says of one key. */
export interface HeardRow extends HeardRecord {
  readonly row: RecordRow
}

/** What each region says of one key. */
export type KeyRows = ReadonlyMap<RegionId, HeardRow>

/** Every loan of a key that its borrower still uses, as the newest records of both tell. */
export function loansOf(
  rows: KeyRows,
  { capacity, marks }: { readonly capacity: number; readonly marks: MarkTimes },
): readonly Loan[] {
  return [...rows].flatMap(([lender, { row }]) =>
    Object.keys(row.lent).flatMap((borrower) => {
      const units = loanUnits(lender, borrower, rows)
      if (units === 0) return []
      const deadline = deadlineOf(lender, borrower, rows, marks)
      return [{ lender, borrower, units, tokens: shareTokens(capacity, units), deadline }]
    }),
  )
}

/** What the lender says it lent in the term that the borrower still uses, less what that says it gave back. */
export function loanUnits(lender: RegionId, borrower: RegionId, rows: KeyRows): number {
  const theirs = rows.get(lender)
  const own = rows.get(borrower)
  const lent = theirs?.row.lent[borrower]
  const pair = own?.record.pairs[lender]?.borrow
  const term = theirs?.record.pairs[borrower]?.lend[0]
  if (lent === undefined || pair === undefined || pair[1] !== term || pair[2] === 1) return 0
  if (pair[0] !== theirs?.record.mark.incarnation) return 0
  return Math.max(0, lent[1] - (own?.row.gaveBack[lender]?.[1] ?? 0))
}

/**
 * A loan lasts from when its borrower sent the record that the lender acknowledges. That record came here some
 * milliseconds after it was sent, so this is that much late.
 */
function deadlineOf(
  lender: RegionId,
  borrower: RegionId,
  rows: KeyRows,
  marks: MarkTimes,
): string | null {
  const ack = rows.get(lender)?.record.acks[borrower]
  const sentMs = ack === undefined ? null : marks.heardMs(borrower, ack)
  return sentMs === null ? null : new Date(sentMs + LOAN_TTL_MS).toISOString()
}
