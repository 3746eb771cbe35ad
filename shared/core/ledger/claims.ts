/** What each region in reach has and needs of one key, as this region sees it. */
import type { Claim } from '../allocation/allocator.ts'
import { floorOf } from '../base-split.ts'
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import { DEAF_AFTER_MS, SILENT_AFTER_MS } from './constants.ts'
import type { Draft } from './draft.ts'
import { basesOf } from './homes.ts'
import { quarantinedOf } from './rows.ts'
import type { KeyState } from './state.ts'
import type { LedgerLimit, RecordRow } from './types.ts'

/** Where units are that no region may use; no region's name is empty. */
const NOBODY = ''

/** A thousandth of a token a second: demand travels in whole numbers. */
const MILLITOKENS = 1_000

/**
 * The claims of this region and of every peer that was heard lately and knows its own ledger.
 *
 * A share is the base, less what is lent and quarantined, plus what is borrowed; units on their way count with
 * the region that they are on their way to, so that nobody sends them twice.
 */
export function claimsOn(draft: Draft, key: KeyState, limit: LedgerLimit): readonly Claim[] {
  const id = key.row.id
  const bases = basesOf(draft, limit)
  const shares = sharesOf(draft, key, bases)
  return draft.members
    .filter((region) => region === draft.self || isInReach(draft, region))
    .map((region) => {
      const base = bases.get(region) ?? 0
      const row = draft.heard.get(region)?.rows.get(id)
      const isSelf = region === draft.self
      return {
        region,
        base,
        floor: floorOf(base, limit),
        share: Math.max(0, shares.get(region) ?? 0),
        demand: isSelf ? (key.estimate?.perSecond ?? 0) : (row?.demand ?? 0) / MILLITOKENS,
        hungry: isSelf ? key.estimate?.hungry === true : row?.hungry === true,
      }
    })
}

/**
 * True for peers that take part in rebalancing: heard lately, not recovering, and known to hear this region.
 *
 * A peer that is heard but does not hear would never learn of a loan, nor could it say that the loan's term is
 * dead; the lender would go on acknowledging it and never get the units back.
 */
export function isInReach(draft: Draft, region: RegionId): boolean {
  const heard = draft.heard.get(region)
  if (heard === undefined || heard.record.recovering) return false
  if (draft.nowMs - heard.atMs > SILENT_AFTER_MS) return false
  const ack = heard.record.acks[draft.self]
  const sent = ack?.incarnation === draft.incarnation ? draft.sent.get(ack.seq) : undefined
  return sent !== undefined && draft.nowMs - sent.atMs <= DEAF_AFTER_MS
}

export function isOtherHungry(draft: Draft, id: CounterId): boolean {
  for (const heard of draft.heard.values()) {
    if (heard.rows.get(id)?.hungry === true && isInReach(draft, heard.record.from)) return true
  }
  return false
}

/** Demand as it travels. */
export function toMillitokens(perSecond: number): number {
  return Math.round(perSecond * MILLITOKENS)
}

function sharesOf(
  draft: Draft,
  key: KeyState,
  bases: ReadonlyMap<RegionId, number>,
): ReadonlyMap<RegionId, number> {
  const shares = new Map(bases)
  const move = (from: RegionId, to: RegionId, units: number): void => {
    shares.set(from, (shares.get(from) ?? 0) - units)
    shares.set(to, (shares.get(to) ?? 0) + units)
  }
  shares.set(draft.self, (shares.get(draft.self) ?? 0) - quarantinedOf(key.row))
  // Entries by name: this is worked out for thousands of keys a second, and most have no loans.
  for (const borrower in key.row.lent) {
    const loan = key.row.lent[borrower]
    if (loan !== undefined) move(draft.self, borrower, loan.lent - loan.returned)
  }
  for (const lender in key.row.borrowed) {
    const loan = key.row.borrowed[lender]
    if (loan !== undefined) move(lender, draft.self, loan.lent - loan.returned)
  }
  for (const [lender, heard] of draft.heard) {
    const row = heard.rows.get(key.row.id)
    if (row !== undefined) moveHeard(draft, lender, row, move)
  }
  return shares
}

/** Counts the loans of a peer to others than this region, and what it may not use yet. */
function moveHeard(
  draft: Draft,
  lender: RegionId,
  row: RecordRow,
  move: (from: RegionId, to: RegionId, units: number) => void,
): void {
  if (row.quarantined > 0) move(lender, NOBODY, row.quarantined)
  for (const borrower in row.lent) {
    const loan = row.lent[borrower]
    // What this region borrowed is counted from its own row.
    if (loan === undefined || borrower === draft.self) continue
    const told = draft.heard.get(borrower)?.rows.get(row.id)?.gaveBack[lender]
    move(lender, borrower, outOf(loan, told))
  }
}

/** What one peer lent another and did not get back, by whichever of the two tells more of it. */
function outOf(
  loan: readonly [born: number, lent: number, returned: number],
  told: readonly [born: number, returned: number] | undefined,
): number {
  const [born, lent, returned] = loan
  const back = told !== undefined && told[0] === born ? told[1] : 0
  return Math.max(0, lent - Math.max(returned, back))
}
