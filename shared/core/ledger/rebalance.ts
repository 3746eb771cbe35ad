/**
 * This region's part in moving one key's units to where they are needed: it gives back what it borrowed, and
 * lends of its own. It never asks: a region in need says so in its record, and those that can give do.
 *
 * While an operator has frozen a limit, neither happens; while its split is pinned, all goes home.
 *
 * Both are shrinks by choice, so the store may refuse them where a window has already spent the units; then they
 * never happened, and less is offered until that window is over.
 */
import { allocate } from '../allocation/allocator.ts'
import { isAnyShort, planMoves } from '../allocation/moves.ts'
import { floorOf } from '../base-split.ts'
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import { giveBack, heldFromLender } from './borrower.ts'
import { claimsOn, isInReach } from './claims.ts'
import { HUNGRY_REPEAT_MS } from './constants.ts'
import { askToPublish, type Draft, limitOf, storeNow } from './draft.ts'
import { basesOf, isBlind, isGivingUp } from './homes.ts'
import { canLendTo, lend } from './lender.ts'
import { outstandingOf, quarantinedOf } from './rows.ts'
import type { KeyState } from './state.ts'
import type { LedgerLimit } from './types.ts'

/**
 * Looks at these keys, and at those that wait: now, or in a round that follows the last one a little later.
 *
 * In a large plane some record comes at any moment and each has hungry rows: looking at a key for each of them would
 * work out the same again and again. Any event begins the round that is due, and of those there is always another.
 */
export function rebalanceSoon(draft: Draft, ids: Iterable<CounterId>): void {
  const due = new Set(draft.due)
  for (const id of ids) due.add(id)
  if (due.size === 0) return
  const isDue = draft.nowMs - draft.roundMs >= roundSpacingMs(draft)
  draft.due = isDue ? NONE : due
  if (!isDue) return
  draft.roundMs = draft.nowMs
  for (const id of due) rebalance(draft, id)
}

/** Looks at every key, whatever was due. */
export function rebalanceAll(draft: Draft): void {
  draft.due = NONE
  draft.roundMs = draft.nowMs
  for (const id of draft.keys.keys()) rebalance(draft, id)
}

const NONE: ReadonlySet<CounterId> = new Set()

/** Work of a millisecond between rounds, in keys times regions: each takes about a microsecond, so a twentieth of a core. */
const ROUND_WORK_PER_MS = 50

/** Longest wait for a round: as often as a calm daemon reads its Redis. */
const ROUND_SPACING_MS_MAX = 250

/** None for what planes of some regions and some hundred keys have: they follow a step at once. */
function roundSpacingMs({ keys, members }: Draft): number {
  const work = keys.size * members.length
  return Math.min(ROUND_SPACING_MS_MAX, Math.floor(work / ROUND_WORK_PER_MS))
}

/** Gives back and lends of one key what the others need more. Does nothing before the demand here is known. */
export function rebalance(draft: Draft, id: CounterId): void {
  const key = draft.keys.get(id)
  const limit = limitOf(draft, id)
  if (key === undefined || limit === null || draft.recoveringUntilMs !== null) return
  returnToGivingUp(draft, key, limit)
  if (limit.lending === 'none') goHome(draft, id)
  else if (limit.lending !== 'frozen') moveWhereNeeded(draft, key, limit)
}

function moveWhereNeeded(draft: Draft, key: KeyState, limit: LedgerLimit): void {
  const { id } = key.row
  const claims = claimsOn(draft, key, limit)
  if (!isAnyShort(claims, limit)) return
  const plan = planMoves(claims, allocate(claims, limit))
  if (plan.short.includes(draft.self) && plan.donors.length > 0) repeatHunger(draft, key)
  if ((key.estimate?.perSecond ?? null) === null) return
  for (const transfer of plan.transfers) {
    if (transfer.from === draft.self) move(draft, { id, limit, to: transfer.to }, transfer.units)
  }
}

/** Gives back what was borrowed of a key that nobody is to borrow of, as far as a window has room for the shrink. */
function goHome(draft: Draft, id: CounterId): void {
  for (const lender of Object.keys(draft.keys.get(id)?.row.borrowed ?? {}).sort()) {
    returnTo(draft, id, lender, offerLeft(draft, id))
  }
}

/** Gives everything of one key back, when this region has had no need of it for long. */
export function returnAll(draft: Draft, id: CounterId): void {
  const row = draft.keys.get(id)?.row
  for (const lender of Object.keys(row?.borrowed ?? {})) returnTo(draft, id, lender)
}

interface Move {
  readonly id: CounterId
  readonly limit: LedgerLimit
  readonly to: RegionId
}

/**
 * Brings `units` nearer to a region in need: what was borrowed of it goes home first; then own units; then what
 * was borrowed of others goes back to them, and they pass it on.
 */
function move(draft: Draft, { id, limit, to }: Move, wanted: number): void {
  let left = Math.min(wanted, offerLeft(draft, id))
  left -= returnTo(draft, id, to, left)
  left -= lendTo(draft, { id, limit, to }, left)
  for (const lender of Object.keys(draft.keys.get(id)?.row.borrowed ?? {}).sort()) {
    if (left > 0) left -= returnTo(draft, id, lender, left)
  }
}

function returnTo(
  draft: Draft,
  id: CounterId,
  lender: RegionId,
  atMost: number = Number.POSITIVE_INFINITY,
): number {
  const key = draft.keys.get(id)
  if (key === undefined) return 0
  const units = Math.min(atMost, heldFromLender(draft, key, lender))
  if (units <= 0) return 0
  remember(draft, key)
  giveBack(draft, key, lender, units)
  return units
}

function lendTo(draft: Draft, { id, limit, to }: Move, atMost: number): number {
  const key = draft.keys.get(id)
  if (key === undefined || isBlind(draft, limit) || isGivingUp(draft, limit, draft.self)) return 0
  const base = basesOf(draft, limit).get(draft.self) ?? 0
  const lendable = base - floorOf(base, limit) - outstandingOf(key.row) - quarantinedOf(key.row)
  const units = Math.min(atMost, lendable)
  if (units <= 0 || !isInReach(draft, to) || !canLendTo(draft, to)) return 0
  remember(draft, key)
  lend(draft, key, to, units)
  return units
}

/** A region that gives up base in an open epoch cannot adopt it while too much of its base is lent. */
function returnToGivingUp(draft: Draft, key: KeyState, limit: LedgerLimit): void {
  if (!draft.epochs.has(limit.id)) return
  for (const lender of Object.keys(key.row.borrowed)) {
    if (isGivingUp(draft, limit, lender)) {
      returnTo(draft, key.row.id, lender, offerLeft(draft, key.row.id))
    }
  }
}

/** Keeps the key as it was before this step's first move: the store may refuse it. */
function remember(draft: Draft, key: KeyState): void {
  if (!draft.before.has(key.row.id)) draft.before.set(key.row.id, key)
}

/** How much of a key may still be offered in this step: all of its moves are one shrink, refused or not. */
function offerLeft(draft: Draft, id: CounterId): number {
  const key = draft.keys.get(id)
  const offer = key?.offer ?? null
  if (key === undefined || offer === null || storeNow(draft) >= offer.untilStoreMs) {
    return Number.POSITIVE_INFINITY
  }
  const before = draft.before.get(id) ?? key
  return offer.units - (givenUp(key) - givenUp(before))
}

/** Units of a key that others have of this region, less those that it has of others. */
function givenUp({ row }: KeyState): number {
  const borrowed = Object.values(row.borrowed)
  return borrowed.reduce((sum, loan) => sum - loan.lent + loan.returned, outstandingOf(row))
}

function repeatHunger(draft: Draft, key: KeyState): void {
  if (key.estimate?.hungry !== true || draft.nowMs - draft.lastUrgentMs < HUNGRY_REPEAT_MS) return
  askToPublish(draft, 'urgent')
}
