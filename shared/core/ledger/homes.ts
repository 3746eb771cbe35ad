/**
 * A region's own part of each limit: base epochs, recovery after amnesia.
 *
 * While an epoch is open a donor uses the smaller of its two bases from the moment it knows of the epoch, and
 * says "adopted" once nothing can be spent of the difference any more; a grower counts a donor's part only once
 * it heard that. A donor that lent more than it has left uses nothing of its own until the loans came home: its
 * part of the pool is then the loans, and they fit in its old base.
 */

import { unreachable } from '../assert.ts'
import { floorOf, planTransfers } from '../base-split.ts'
import type { RegionId } from '../policy.ts'
import { isLongWindow } from '../stock/stock-limit.ts'
import { CLOCK_SKEW_MAX_MS, DRIFT, LENDER_WAIT_MS } from './constants.ts'
import { type Draft, limitOf, storeNow, type View } from './draft.ts'
import { outstandingOf, quarantinedOf } from './rows.ts'
import type { EpochProgress, LedgerState } from './state.ts'
import type { LedgerLimit } from './types.ts'

/**
 * When units that were spent until now may be used again without being spent twice in one window; null where
 * they may at once (a bucket gives up its level with its share).
 *
 * The reading of the store's clock may be late, and a fixed window is the one that the fastest clock of the plane may
 * label with: hence twice the skew ahead. It has ended for the slowest clock at twice the skew after its end. A long
 * window is stock: its floors are pinned apart from the base, and nothing of it is ever lent.
 */
export function drainEnd(limit: LedgerLimit, storeMs: number): number | null {
  const { algorithm, windowMs } = limit
  const latestMs = storeMs + 2 * CLOCK_SKEW_MAX_MS
  switch (algorithm) {
    case 'token_bucket':
    case 'leaky_bucket':
      return null
    case 'fixed_window':
      if (isLongWindow(limit)) return null
      // Of a calendar: wherever its windows begin, none lasts longer.
      return limit.calendar
        ? latestMs + windowMs + 2 * CLOCK_SKEW_MAX_MS
        : (Math.floor(latestMs / windowMs) + 1) * windowMs + 2 * CLOCK_SKEW_MAX_MS
    case 'sliding_window':
    case 'sliding_log':
    // The longest hold.
    case 'concurrency':
      return Math.ceil(latestMs + windowMs * (1 + DRIFT))
    case 'sliding_counter':
      // What a window admitted is part of the estimate until the next one ends.
      return Math.ceil(latestMs + 2 * windowMs * (1 + DRIFT))
    default:
      return unreachable(algorithm)
  }
}

/** Base parts of all regions as this region may count on them. */
export function basesOf(draft: View, limit: LedgerLimit): ReadonlyMap<RegionId, number> {
  const known = draft.bases.get(limit.id)
  if (known !== undefined) return known
  const bases = effectiveBases(limit, draft.epochs.get(limit.id)?.adoptedBy ?? new Set())
  draft.bases.set(limit.id, bases)
  return bases
}

function effectiveBases(
  limit: LedgerLimit,
  adoptedBy: ReadonlySet<RegionId>,
): ReadonlyMap<RegionId, number> {
  const { base, previousBase } = limit
  if (previousBase === null) return new Map(Object.entries(base))
  const bases = new Map<RegionId, number>()
  for (const region of Object.keys({ ...previousBase, ...base })) {
    bases.set(region, Math.min(previousBase[region] ?? 0, base[region] ?? 0))
  }
  for (const transfer of planTransfers(previousBase, base)) {
    if (!adoptedBy.has(transfer.from)) continue
    bases.set(transfer.to, (bases.get(transfer.to) ?? 0) + transfer.units)
  }
  return bases
}

/** What this region may use of a limit by itself. */
export function homePart(draft: View, limit: LedgerLimit): number {
  return isBlind(draft, limit) ? 0 : (basesOf(draft, limit).get(draft.self) ?? 0)
}

/**
 * True while the region may use nothing of a limit: what it lent before its amnesia may still be used.
 *
 * Not even its floor: that is never lent, but it is today's policy that says how much it is, and the region may
 * have lent under a policy that said less.
 */
export function isBlind(
  state: Pick<LedgerState, 'recoveringUntilMs' | 'drains'>,
  limit: LedgerLimit,
): boolean {
  return state.recoveringUntilMs !== null || state.drains.has(limit.id)
}

export function isDonor(limit: LedgerLimit, region: RegionId): boolean {
  const { base, previousBase } = limit
  return previousBase !== null && (base[region] ?? 0) < (previousBase[region] ?? 0)
}

/** True when a region gives up base in an open epoch and was not heard to be done with it. */
export function isGivingUp(draft: Draft, limit: LedgerLimit, region: RegionId): boolean {
  return isDonor(limit, region) && draft.epochs.get(limit.id)?.adoptedBy.has(region) !== true
}

/** Largest base that a region can be counting on, whatever it has heard. */
export function basesMax(limit: LedgerLimit, region: RegionId): number {
  return Math.max(limit.base[region] ?? 0, limit.previousBase?.[region] ?? 0)
}

export function beginRecovery(draft: Draft): void {
  draft.recoveringUntilMs = draft.nowMs + LENDER_WAIT_MS
}

/**
 * Ends the recovery when its time has come, or as soon as nobody can be using a forgotten loan: buckets get their
 * base back, windows once the running one is over.
 */
export function endRecovery(draft: Draft): void {
  const endMs = draft.recoveringUntilMs
  if (endMs !== null && (draft.nowMs >= endMs || isAnsweredByAll(draft))) {
    draft.recoveringUntilMs = null
    // A region without a part of its own has none as before, and may use what it borrows from here on.
    draft.mustWriteHomes = true
    drainFrom(draft, storeNow(draft))
  }
  for (const [limitId, end] of draft.drains) {
    if (storeNow(draft) >= end) draft.drains.delete(limitId)
  }
}

/**
 * True when every region that may have borrowed of an earlier incarnation of this one has said that it uses nothing
 * of it any more. All of them, since one that was not heard may hold what none of the others knows of. A region that
 * was removed is not heard, so one that was removed lately means the full wait.
 */
function isAnsweredByAll(draft: Draft): boolean {
  if (!draft.members.includes(draft.self)) return false
  return [...draft.members, ...draft.formerMembers].every((region) => {
    if (region === draft.self) return true
    const answer = draft.heard.get(region)?.record.pairs[draft.self]?.borrow[0] ?? 0
    return answer >= draft.incarnation
  })
}

/**
 * Goes on with what another daemon of this region began: a recovery that ended, but not so the windows in which
 * forgotten loans were used. Those loans were over LENDER_WAIT_MS after the boot at the latest.
 */
export function resumeDrains(draft: Draft): void {
  const bootedAt = draft.bootedAtStoreMs
  draft.bootedAtStoreMs = null
  if (bootedAt !== null && bootedAt > 0) drainFrom(draft, bootedAt + LENDER_WAIT_MS)
}

function drainFrom(draft: Draft, storeMs: number): void {
  for (const limit of draft.limits?.values() ?? []) {
    const end = drainEnd(limit, storeMs)
    if (end !== null && storeNow(draft) < end) draft.drains.set(limit.id, end)
  }
}

/** Opens, goes on with and closes epochs as the limits say. Called whenever they or a peer's adoptions changed. */
export function followEpochs(draft: Draft): void {
  for (const limitId of [...draft.epochs.keys()]) {
    if ((draft.limits?.get(limitId)?.previousBase ?? null) === null) draft.epochs.delete(limitId)
  }
  for (const limit of draft.limits?.values() ?? []) {
    if (limit.previousBase !== null) draft.epochs.set(limit.id, progressOf(draft, limit))
  }
  draft.bases.clear()
}

/**
 * Adoptions count only once the store holds this region's part without them: a part that it sees grow starts with
 * what was there, while one that it first sees full-grown would be born with tokens that a donor may have spent.
 */
function progressOf(draft: Draft, limit: LedgerLimit): EpochProgress {
  const known = draft.epochs.get(limit.id)
  if (known?.epoch !== limit.epoch) {
    return { epoch: limit.epoch, drainedAtStoreMs: null, adoptedBy: new Set() }
  }
  if (draft.homes === null) return known
  const heard = [...draft.heard.values()]
    .map(({ record }) => record)
    .filter((record) => (record.adopted[limit.id] ?? -1) >= limit.epoch)
    .map((record) => record.from)
  return { ...known, adoptedBy: new Set([...known.adoptedBy, ...heard]) }
}

/**
 * Goes on with open epochs: dates the drain of those whose smaller home parts the store has confirmed, then
 * adopts those in which nothing can be spent of the difference any more.
 *
 * Called by every step but the one that writes the home parts: dated any earlier, a slow write would leave the
 * old part usable in the next window. Blind regions adopt nothing: they do not know what they lent.
 */
export function adoptEpochs(draft: Draft): void {
  if (draft.homes === null) return
  for (const [limitId, known] of draft.epochs) {
    const limit = draft.limits?.get(limitId)
    if (limit === undefined || known.adoptedBy.has(draft.self) || isBlind(draft, limit)) continue
    const drained =
      known.drainedAtStoreMs ?? drainEnd(limit, storeNow(draft)) ?? Number.NEGATIVE_INFINITY
    const isReady =
      !isDonor(limit, draft.self) || (storeNow(draft) >= drained && hasRoom(draft, limit))
    const adoptedBy = isReady ? new Set([...known.adoptedBy, draft.self]) : known.adoptedBy
    draft.epochs.set(limitId, { ...known, drainedAtStoreMs: drained, adoptedBy })
    draft.bases.delete(limitId)
  }
}

/** True when all that a donor lent fits in its smaller base beside its floor, which it then has at once. */
function hasRoom(draft: Draft, limit: LedgerLimit): boolean {
  const base = limit.base[draft.self] ?? 0
  const room = base - floorOf(base, limit)
  for (const [id, { row }] of draft.keys) {
    if (outstandingOf(row) + quarantinedOf(row) <= room) continue
    if (limitOf(draft, id)?.id === limit.id) return false
  }
  return true
}
