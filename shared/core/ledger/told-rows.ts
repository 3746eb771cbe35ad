/**
 * What a record says of each key, held steady: figures that changed too little to matter are told as they were.
 *
 * Most rows are then the very rows of the last record. That is what makes a record small on the wire, and cheap to
 * hear: a thousand hot keys whose demand is noise cost next to nothing. What moves with loans is always told as it is,
 * and so is the demand of a key that begins to deny or ceases to.
 */
import { rateOf } from '../allocation/allocator.ts'
import { toMillitokens } from './claims.ts'
import { quarantinedOf } from './rows.ts'
import type { KeyState } from './state.ts'
import type { LedgerLimit, LedgerRow, RecordRow } from './types.ts'

/**
 * Demand that rose by no more than this part of itself, or of the limit, is told as it was: less than the safety stock
 * that the allocator adds to it, so that nobody is short by it. While a region denies, a fall is told as finely.
 */
const RISE_STEP = 0.01
const LIMIT_RISE_STEP = 0.002

/** Demand that fell by no more than this part of itself, or of the limit, is told as it was: most of it is noise. */
const FALL_STEP = 0.05
const LIMIT_STEP = 0.01

/**
 * Counts of tokens are told this often. Nothing is decided by them; who watches sees a hot key's counts this late,
 * and the audit of what was admitted allows for it.
 */
export const COUNTS_EVERY_MS = 5_000

export interface ToldRow {
  readonly row: RecordRow
  /** The ledger row that it was made of. */
  readonly of: LedgerRow
  readonly countsAtMs: number
}

/** What the next record says of a key; the same object as before when that is what it said. */
export function tellRow(
  key: KeyState,
  now: { readonly share: number; readonly limit: LedgerLimit | null; readonly nowMs: number },
  told: ToldRow | undefined,
): ToldRow {
  if (told === undefined) return firstTold(key, now)
  const hungry = key.estimate?.hungry === true
  const isMoved = told.of !== key.row || told.row.share !== now.share || told.row.hungry !== hungry
  const demand = steadyDemand(key, now.limit, isMoved ? null : told.row)
  const counts = countsOf(key)
  const isDue = now.nowMs - told.countsAtMs >= COUNTS_EVERY_MS
  const isCounted = isDue && !isSameCounts(counts, told.row)
  if (!isMoved && demand === told.row.demand && !isCounted) return told
  return {
    row: {
      ...told.row,
      ...(isMoved && positionOf(key, now.share)),
      demand,
      ...(isCounted && counts),
    },
    of: key.row,
    countsAtMs: isCounted ? now.nowMs : told.countsAtMs,
  }
}

function firstTold(
  key: KeyState,
  { share, nowMs }: { readonly share: number; readonly nowMs: number },
): ToldRow {
  const demand = toMillitokens(key.estimate?.perSecond ?? 0)
  const row = { id: key.row.id, demand, ...positionOf(key, share), ...countsOf(key) }
  return { row, of: key.row, countsAtMs: nowMs }
}

function steadyDemand(key: KeyState, limit: LedgerLimit | null, told: RecordRow | null): number {
  const demand = toMillitokens(key.estimate?.perSecond ?? 0)
  if (told === null) return demand
  const whole = limit === null ? 0 : toMillitokens(rateOf(limit))
  const rise = Math.max(RISE_STEP * told.demand, LIMIT_RISE_STEP * whole)
  const fall = told.hungry ? rise : Math.max(FALL_STEP * told.demand, LIMIT_STEP * whole)
  // Whether there is any demand at all is worth a token to others.
  const isSteady =
    demand <= told.demand + rise && demand >= told.demand - fall && demand > 0 === told.demand > 0
  return isSteady ? told.demand : demand
}

function countsOf({
  estimate,
  returned,
}: KeyState): Pick<RecordRow, 'admitted' | 'denied' | 'returned'> {
  return { admitted: estimate?.admitted ?? 0, denied: estimate?.denied ?? 0, returned }
}

function isSameCounts(one: ReturnType<typeof countsOf>, other: RecordRow): boolean {
  return (
    one.admitted === other.admitted &&
    one.denied === other.denied &&
    one.returned === other.returned
  )
}

function positionOf({ row, estimate }: KeyState, share: number) {
  return {
    share,
    hungry: estimate?.hungry === true,
    quarantined: quarantinedOf(row),
    lent: lentOf(row),
    gaveBack: gaveBackOf(row),
  }
}

function lentOf(row: LedgerRow): RecordRow['lent'] {
  return Object.fromEntries(
    Object.entries(row.lent).map(([borrower, { born, lent, returned }]) => [
      borrower,
      [born, lent, returned] as const,
    ]),
  )
}

function gaveBackOf(row: LedgerRow): RecordRow['gaveBack'] {
  return Object.fromEntries(
    Object.entries(row.borrowed).map(([lender, { born, returned }]) => [
      lender,
      [born, returned] as const,
    ]),
  )
}
