/**
 * The borrower's side of a pair: what it may use of others, and until when.
 *
 * A lease runs LOAN_TTL_MS from the moment that this region sent the record which the lender acknowledged, by this
 * region's own clock. Once it has run out the term is dead for good: the lender may take the units back at any
 * time from then on, so a late acknowledgement must not revive it.
 */

import type { RegionId } from '../policy.ts'
import { LOAN_TTL_MS } from './constants.ts'
import { askToPublish, type Draft, pairOf, raiseAlarm, setPair, setRow, track } from './draft.ts'
import { heldFrom, isOfTerm, withBorrowed } from './rows.ts'
import type { KeyState, Pair } from './state.ts'
import type { RecordRow, RegionRecord } from './types.ts'

/** Takes in what a lender says it lent to this region, and renews the lease if it acknowledged a record. */
export function receiveLoans(draft: Draft, record: RegionRecord): void {
  followLife(draft, record.from, record.mark.incarnation)
  const addressed = record.pairs[draft.self]?.lend
  // Loans to an earlier incarnation of this region are not this one's to use.
  if (addressed === undefined || addressed[1] !== draft.incarnation) return
  lapseIfDue(draft, record.from)
  const [term] = addressed
  const { borrow } = pairOf(draft, record.from)
  const { incarnation } = record.mark
  if (isLater([incarnation, term], [borrow.incarnation, borrow.term])) {
    beginTerm(draft, record.from, { incarnation, term, dead: false })
  } else if (isLater([borrow.incarnation, borrow.term], [incarnation, term])) {
    // A term that lives was heard of in this very life. One that is dead may be known from the store alone, and then
    // the first record that is heard may be a straggler from before it.
    if (!borrow.dead) raiseAlarm(draft, record.from, 'unknown-term')
    return
  }
  if (pairOf(draft, record.from).borrow.dead) return
  for (const row of draft.heard.get(record.from)?.rows.values() ?? []) {
    receiveRow(draft, record.from, row)
  }
  dropClosed(draft, record)
  renewLease(draft, record)
}

/**
 * Lets go of all that earlier incarnations of a peer lent, once a later one is heard of, and says so: a lender that
 * lost its memory waits no longer than until everybody did. Durable like any term, so no late record of an earlier
 * life revives anything, whether or not this region was restarted in between.
 */
export function followLife(draft: Draft, lender: RegionId, incarnation: number): void {
  if (incarnation <= pairOf(draft, lender).borrow.incarnation) return
  beginTerm(draft, lender, { incarnation, term: 0, dead: true })
  askToPublish(draft, 'urgent')
}

function receiveRow(draft: Draft, lender: RegionId, row: RecordRow): void {
  const loan = row.lent[draft.self]
  const key = loan === undefined ? null : track(draft, row.id)
  if (loan === undefined || key === null) return
  const [born, lent] = loan
  const { incarnation, term } = pairOf(draft, lender).borrow
  const known = key.row.borrowed[lender]
  const isOld =
    known !== undefined && (born < known.born || (born === known.born && lent <= known.lent))
  if (isOld) return
  const returned = known?.born === born ? known.returned : 0
  const grown = { incarnation, term, born, lent, returned }
  setRow(draft, key, withBorrowed(key.row, lender, grown))
}

/** A row that the lender no longer carries is closed: everything of it came back. */
function dropClosed(draft: Draft, record: RegionRecord): void {
  const open = new Set(record.rows.filter((row) => draft.self in row.lent).map((row) => row.id))
  for (const key of draft.keys.values()) {
    if (open.has(key.row.id) || key.row.borrowed[record.from] === undefined) continue
    setRow(draft, key, withBorrowed(key.row, record.from, null))
  }
}

function renewLease(draft: Draft, record: RegionRecord): void {
  const ack = record.acks[draft.self]
  if (ack === undefined || ack.incarnation !== draft.incarnation) return
  if (ack.fence === draft.fence && ack.seq >= draft.nextSeq) {
    raiseAlarm(draft, record.from, 'unknown-ack')
  }
  const sent = draft.sent.get(ack.seq)
  if (sent === undefined || sent.fence !== ack.fence) return
  const pair = pairOf(draft, record.from)
  const untilMs = Math.max(pair.untilMs ?? Number.NEGATIVE_INFINITY, sent.atMs + LOAN_TTL_MS)
  if (untilMs <= draft.nowMs) return
  draft.pairs.set(record.from, { ...pair, untilMs })
  if (pair.untilMs === null) touchBorrowed(draft, record.from)
}

/** Ends the term with a lender whose lease has run out: nothing of it is ever used again. */
export function lapseIfDue(draft: Draft, lender: RegionId): void {
  const { untilMs } = pairOf(draft, lender)
  if (untilMs !== null && draft.nowMs >= untilMs) endTerm(draft, lender)
}

/** Ends the term with a lender for good, and says so. */
export function endTerm(draft: Draft, lender: RegionId): void {
  beginTerm(draft, lender, { ...pairOf(draft, lender).borrow, dead: true })
  askToPublish(draft, 'urgent')
}

export function lapseAllDue(draft: Draft): void {
  for (const lender of [...draft.pairs.keys()]) lapseIfDue(draft, lender)
}

/** Gives units back to their lender; the caller has checked that they are held. */
export function giveBack(draft: Draft, key: KeyState, lender: RegionId, units: number): void {
  const loan = key.row.borrowed[lender]
  if (loan === undefined) return
  const less = { ...loan, returned: loan.returned + units }
  setRow(draft, key, withBorrowed(key.row, lender, less))
}

/** What this region may use now of what one lender lent it. */
export function heldFromLender(draft: Draft, key: KeyState, lender: RegionId): number {
  return heldFrom(key.row.borrowed[lender], draft.pairs.get(lender), draft.nowMs)
}

function beginTerm(draft: Draft, lender: RegionId, borrow: Pair['borrow']): void {
  setPair(draft, lender, { ...pairOf(draft, lender), borrow, untilMs: null })
  dropForeignTerms(draft, lender)
}

/** Takes out rows of terms that are over; they are worth nothing. */
export function dropForeignTerms(draft: Draft, lender: RegionId): void {
  for (const key of draft.keys.values()) {
    const loan = key.row.borrowed[lender]
    if (loan === undefined || isOfTerm(loan, draft.pairs.get(lender))) continue
    setRow(draft, key, withBorrowed(key.row, lender, null))
  }
}

function touchBorrowed(draft: Draft, lender: RegionId): void {
  for (const { row } of draft.keys.values()) {
    if (row.borrowed[lender] !== undefined) draft.touched.add(row.id)
  }
}

type TermOf = readonly [incarnation: number, term: number]

function isLater(one: TermOf, other: TermOf): boolean {
  return one[0] !== other[0] ? one[0] > other[0] : one[1] > other[1]
}
