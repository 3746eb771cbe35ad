/** Turning what a step changed into writes, and what the store answered into what may be told. */
import { assert } from '../assert.ts'
import type { CounterId } from '../descriptor.ts'
import { POOL_UNITS } from '../units.ts'
import { askToPublish, type Draft, limitOf, storeNow, type View } from './draft.ts'
import { homePart } from './homes.ts'
import { heldOf, isEmpty, outstandingOf, quarantinedOf } from './rows.ts'
import type { KeyState, PublishNeed, WrittenShare } from './state.ts'
import type { LedgerEffect, PairState, ShareOutcome, ShareWrite } from './types.ts'

/**
 * The effects of a step: pairs, then home parts, then shares; the record that tells of them only after the store
 * has confirmed the shares.
 */
export function flush(draft: Draft): readonly LedgerEffect[] {
  const effects: LedgerEffect[] = []
  const pairs = changedPairs(draft)
  if (Object.keys(pairs).length > 0) effects.push({ kind: 'write-pairs', pairs })
  const homes = changedHomes(draft)
  if (homes !== null) {
    draft.homes = homes
    const recovering = draft.recoveringUntilMs !== null
    effects.push({ kind: 'write-homes', homes, recovering })
  }
  const writes = changedShares(draft)
  if (writes.length > 0) {
    const written = new Map(writes.map((write) => [write.id, writtenOf(write)]))
    draft.pending = { written, before: draft.before, publish: draft.publish }
    effects.push({ kind: 'write-shares', writes })
  } else {
    pushPublish(draft, effects)
  }
  return effects
}

/** An offer below this is none: it would cost a write and a row for next to nothing. */
const OFFER_MIN = POOL_UNITS / 1_000

/**
 * Takes the store's answers and returns the keys whose shrink was refused. That shrink never happened: the key is
 * as before, and half as much is offered at most until the window that was too full is over.
 */
export function confirmShares(
  draft: Draft,
  outcomes: ReadonlyMap<CounterId, ShareOutcome>,
): readonly CounterId[] {
  const refused: CounterId[] = []
  const { pending } = draft
  assert(pending !== null, 'shares were on their way')
  draft.pending = null
  askToPublish(draft, pending.publish)
  for (const [id, share] of pending.written) {
    const outcome = outcomes.get(id)
    assert(outcome !== undefined, 'every share has an outcome')
    const before = pending.before.get(id)
    if (outcome === 'occupied') {
      refuse(draft, id, before)
      refused.push(id)
      continue
    }
    if (share !== null) confirm(draft, id, share)
    if (before !== undefined) askToPublish(draft, 'urgent')
  }
  return refused
}

function confirm(draft: Draft, id: CounterId, written: WrittenShare): void {
  const key = draft.keys.get(id)
  if (key !== undefined) draft.keys.set(id, { ...key, written })
}

function refuse(draft: Draft, id: CounterId, before: KeyState | undefined): void {
  const key = draft.keys.get(id)
  const limit = limitOf(draft, id)
  assert(before !== undefined && key !== undefined, 'only a shrink by choice is refused')
  const half = Math.floor((unitsOf(draft, before) - unitsOf(draft, key)) / 2)
  const { windowMs } = limit ?? { windowMs: 1 }
  const untilStoreMs = (Math.floor(storeNow(draft) / windowMs) + 1) * windowMs
  draft.keys.set(id, { ...before, offer: { units: half < OFFER_MIN ? 0 : half, untilStoreMs } })
  draft.touched.add(id)
}

/** What this region may use of a key: its home part without loans, and what it holds of others. */
export function shareOfKey(
  draft: View,
  key: KeyState,
): { readonly home: number; readonly borrowed: number; readonly expiresAtMs: number | null } {
  const limit = limitOf(draft, key.row.id)
  const part = limit === null ? 0 : homePart(draft, limit)
  // A donor of an open epoch may have lent more than it has left: it uses nothing until that came home.
  const home = Math.max(0, part - outstandingOf(key.row) - quarantinedOf(key.row))
  if (draft.recoveringUntilMs !== null) return { home, borrowed: 0, expiresAtMs: null }
  const held = heldOf(key.row, draft.pairs, draft.nowMs)
  return { home, borrowed: held.units, expiresAtMs: held.expiresAtMs }
}

function unitsOf(draft: Draft, key: KeyState): number {
  const { home, borrowed } = shareOfKey(draft, key)
  return home + borrowed
}

/** All pairs when the store gets everything again, the changed ones otherwise. */
function changedPairs(draft: Draft): Readonly<Record<string, PairState>> {
  const peers = draft.homes === null ? draft.pairs.keys() : draft.changedPairs
  return Object.fromEntries(
    [...peers].flatMap((peer) => {
      const pair = draft.pairs.get(peer)
      return pair === undefined ? [] : [[peer, { lend: pair.lend, borrow: pair.borrow }]]
    }),
  )
}

/** All home parts if one changed or the limits did; then every tracked key may have another share, too. */
function changedHomes(draft: Draft): ReadonlyMap<number, number> | null {
  if (isAsBefore(draft)) return null
  const homes = new Map<number, number>()
  for (const limit of draft.limits?.values() ?? []) homes.set(limit.id, homePart(draft, limit))
  if (draft.homes !== null && !draft.mustWriteHomes && isSame(homes, draft.homes)) return null
  for (const id of draft.keys.keys()) draft.touched.add(id)
  return homes
}

/** True when nothing has changed that home parts are worked out from: of thousands of limits none need be looked at. */
function isAsBefore(draft: Draft): boolean {
  const { origin } = draft
  return (
    draft.homes !== null &&
    !draft.mustWriteHomes &&
    draft.limits === origin.limits &&
    draft.recoveringUntilMs === origin.recoveringUntilMs &&
    draft.epochs.result() === origin.epochs &&
    draft.drains.result() === origin.drains
  )
}

function isSame(homes: ReadonlyMap<number, number>, others: ReadonlyMap<number, number>): boolean {
  if (homes.size !== others.size) return false
  for (const [id, home] of homes) if (others.get(id) !== home) return false
  return true
}

function changedShares(draft: Draft): readonly ShareWrite[] {
  const writes: ShareWrite[] = []
  for (const id of draft.forgotten) {
    const share = { home: 0, borrowed: 0, expiresAtMs: null }
    writes.push({ id, ...share, shrinks: false, pinned: false, row: null })
  }
  for (const id of draft.touched) {
    const key = draft.keys.get(id)
    if (key === undefined) continue
    const share = shareOfKey(draft, key)
    if (isWritten(key, share)) continue
    const shrinks = draft.before.has(id)
    writes.push({ id, ...share, shrinks, pinned: !isEmpty(key.row), row: key.row })
  }
  return writes
}

function isWritten(key: KeyState, share: Omit<WrittenShare, 'row'>): boolean {
  const { written } = key
  return (
    written !== null &&
    written.row === key.row &&
    written.home === share.home &&
    written.borrowed === share.borrowed &&
    written.expiresAtMs === share.expiresAtMs
  )
}

function writtenOf(write: ShareWrite): WrittenShare | null {
  const { home, borrowed, expiresAtMs, row } = write
  return row === null ? null : { home, borrowed, expiresAtMs, row }
}

function pushPublish(draft: Draft, effects: LedgerEffect[]): void {
  const need: PublishNeed = draft.publish
  if (need === 'none') return
  if (need === 'urgent') draft.lastUrgentMs = draft.nowMs
  effects.push({ kind: 'publish', urgent: need === 'urgent' })
}
