/**
 * The lender's side of a pair: loans, what comes back of them, and taking the rest back.
 *
 * A loan is worth nothing to its borrower before a record of this region acknowledged a record that the borrower
 * sent in the loan's term; so LENDER_WAIT_MS after the last record that was acknowledged the loan is over, or
 * sooner when the borrower says that the term is dead.
 */
import type { RegionId } from '../policy.ts'
import { LENDER_WAIT_MS } from './constants.ts'
import {
  askToPublish,
  type Draft,
  limitOf,
  pairOf,
  raiseAlarm,
  setPair,
  setRow,
  storeNow,
} from './draft.ts'
import { drainEnd } from './homes.ts'
import { withLent, withQuarantine } from './rows.ts'
import type { KeyState } from './state.ts'
import type { LentRow, RegionRecord } from './types.ts'

/**
 * Takes note of what a borrower gave back, if it speaks of the present term, and takes everything back when it
 * swears that the term is dead.
 */
export function receiveReturns(draft: Draft, record: RegionRecord): void {
  const claim = record.pairs[draft.self]?.borrow
  const pair = pairOf(draft, record.from)
  if (claim === undefined || claim[0] !== draft.incarnation) return
  if (record.mark.incarnation !== pair.lend.borrowerIncarnation) return
  const [, term, isDead] = claim
  // A term is stored before any record tells of it, so nobody can have heard of a later one.
  if (term > pair.lend.term) raiseAlarm(draft, record.from, 'unknown-term')
  if (term !== pair.lend.term) return
  for (const row of record.rows) {
    const gaveBack = row.gaveBack[draft.self]
    if (gaveBack !== undefined) noteReturn(draft, row.id, record.from, gaveBack)
  }
  if (isDead === 1) reclaim(draft, record.from)
}

function noteReturn(
  draft: Draft,
  id: string,
  borrower: RegionId,
  [born, units]: readonly [born: number, units: number],
): void {
  const key = draft.keys.get(id)
  const loan = key?.row.lent[borrower]
  // Figures of an earlier life of this row must not count for the present one.
  if (key === undefined || loan === undefined || loan.born !== born) return
  if (units > loan.lent) {
    raiseAlarm(draft, borrower, 'returned-above-lent')
    return
  }
  if (units <= loan.returned) return
  // The lender drops first: the borrower may only once it saw the row gone.
  const left = units === loan.lent ? null : { ...loan, returned: units }
  setRow(draft, key, withLent(key.row, borrower, left))
}

/**
 * Takes back everything lent to a peer and begins the pair's next term.
 *
 * The term is stored before the rows. A crash in between leaves rows of an earlier term, which count as lent until
 * they are taken back like any other, with a drain that begins anew. The other order would be right only as long
 * as records are complete: a borrower that first heard of the old term late drops what the next record lacks.
 */
export function reclaim(draft: Draft, borrower: RegionId): void {
  const { lend, ...pair } = pairOf(draft, borrower)
  const next = { term: lend.term + 1, borrowerIncarnation: 0, born: lend.born }
  setPair(draft, borrower, { ...pair, lend: next, ackedAtMs: Number.NEGATIVE_INFINITY })
  for (const key of draft.keys.values()) {
    const loan = key.row.lent[borrower]
    if (loan !== undefined) takeBack(draft, key, borrower, loan)
  }
  askToPublish(draft, 'urgent')
}

/** Ends one loan. Units that may have been spent in a running window wait until it is over everywhere. */
export function takeBack(draft: Draft, key: KeyState, borrower: RegionId, loan: LentRow): void {
  const limit = limitOf(draft, key.row.id)
  const units = loan.lent - loan.returned
  const end = limit === null ? null : drainEnd(limit, storeNow(draft))
  const row = withLent(key.row, borrower, null)
  setRow(draft, key, end === null ? row : withQuarantine(row, { units, untilStoreMs: end }))
}

/** Takes back what was lent to peers that may not be using it any more: not acknowledged for long enough. */
export function reclaimLapsed(draft: Draft): void {
  for (const borrower of borrowersOf(draft)) {
    if (draft.nowMs - pairOf(draft, borrower).ackedAtMs > LENDER_WAIT_MS) reclaim(draft, borrower)
  }
}

/** Makes quarantined units usable whose window is over. */
export function releaseQuarantines(draft: Draft): void {
  const storeMs = storeNow(draft)
  for (const key of draft.keys.values()) {
    const quarantine = key.row.quarantine.filter((part) => storeMs < part.untilStoreMs)
    if (quarantine.length === key.row.quarantine.length) continue
    setRow(draft, key, { ...key.row, quarantine })
  }
}

/**
 * True when a loan to this peer can be addressed to the incarnation that it lives in. A peer that lost its memory
 * gets nothing until the loans of its former life are over: terms are per pair.
 */
export function canLendTo(draft: Draft, borrower: RegionId): boolean {
  const incarnation = draft.heard.get(borrower)?.record.mark.incarnation
  if (incarnation === undefined) return false
  if (pairOf(draft, borrower).lend.borrowerIncarnation === incarnation) return true
  return !borrowersOf(draft).has(borrower)
}

/** Lends home units of a key; the caller has checked that there are as many and that the peer can take them. */
export function lend(draft: Draft, key: KeyState, borrower: RegionId, units: number): void {
  const incarnation = draft.heard.get(borrower)?.record.mark.incarnation ?? 0
  const pair = pairOf(draft, borrower)
  const isNewTerm = pair.lend.borrowerIncarnation !== incarnation
  const loan = key.row.lent[borrower]
  const stored = {
    term: isNewTerm ? pair.lend.term + 1 : pair.lend.term,
    borrowerIncarnation: incarnation,
    born: loan === undefined ? pair.lend.born + 1 : pair.lend.born,
  }
  const grown: LentRow =
    loan === undefined
      ? { term: stored.term, born: stored.born, lent: units, returned: 0 }
      : { ...loan, lent: loan.lent + units }
  // Waiting from now on is longer than from the last acknowledgement, and spares a loan to a peer just heard.
  setPair(draft, borrower, { ...pair, lend: stored, ackedAtMs: draft.nowMs })
  setRow(draft, key, withLent(key.row, borrower, grown))
}

function borrowersOf(draft: Draft): ReadonlySet<RegionId> {
  const borrowers = new Set<RegionId>()
  for (const { row } of draft.keys.values()) {
    for (const borrower of Object.keys(row.lent)) borrowers.add(borrower)
  }
  return borrowers
}
