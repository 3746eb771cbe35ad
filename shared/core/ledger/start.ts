/**
 * Beginning to act, or going on after a break: what of the past may be relied on.
 *
 * What the store holds is the truth about rows and pairs. A lease is no part of it: it lives in the memory of
 * the daemon that sent the records which date it. So a lease survives a reading of the store exactly when the
 * state that meets it knows the same term alive; a daemon that begins afresh knows none, and takes every term
 * it borrowed in for dead. That one rule serves a restart, a takeover and a write in doubt, and it makes marks
 * of dropped rows unnecessary: no row of a term known to the store can come alive again through a late record.
 */
import { dropForeignTerms } from './borrower.ts'
import { askToPublish, type Draft, forget, limitOf, setPair } from './draft.ts'
import { beginRecovery, followEpochs, resumeDrains } from './homes.ts'
import { takeBack } from './lender.ts'
import { createLedger, type KeyState, type LedgerState, type Pair, STRANGER } from './state.ts'
import type { LedgerEvent, LedgerRow, PairState } from './types.ts'

type Started = Extract<LedgerEvent, { kind: 'started' }>

/** The state that a start goes on from: everything that the event proves wrong is gone from it. */
export function keepMemory(state: LedgerState, event: Started): LedgerState {
  switch (event.continuity) {
    case 'kept':
    case 'held':
      return state.incarnation === event.incarnation ? state : forgetLedger(state)
    case 'first':
      return forgetLedger(state)
    case 'lost':
      return { ...createLedger(state.self), alarms: state.alarms }
  }
}

export function start(draft: Draft, event: Started): void {
  const isFresh = draft.incarnation === 0
  if (isFresh && event.continuity === 'kept') draft.bootedAtStoreMs = event.bootedAtStoreMs
  draft.incarnation = event.incarnation
  draft.fence = event.fence
  draft.nextSeq = event.firstSeq
  draft.storeOffsetMs = event.storeOffsetMs
  draft.homes = null
  revokePending(draft)
  if (event.continuity === 'kept') adoptStored(draft, event)
  if (event.continuity === 'lost') beginRecovery(draft)
  for (const [id, key] of draft.keys) {
    draft.keys.set(id, { ...key, written: null })
    draft.touched.add(id)
  }
  askToPublish(draft, 'urgent')
}

/** Shrinks that were never confirmed were never told of either, so they can be taken as not made. */
function revokePending(draft: Draft): void {
  for (const [id, key] of draft.pending?.before ?? []) draft.keys.set(id, key)
  draft.pending = null
}

function adoptStored(draft: Draft, event: Started): void {
  const peers = new Set([...Object.keys(event.pairs), ...draft.pairs.keys()])
  for (const peer of peers) {
    const stored = event.pairs[peer] ?? STRANGER
    setPair(draft, peer, mergePair(stored, draft.pairs.get(peer), draft.nowMs))
  }
  const rows = new Map(event.rows.map((row) => [row.id, row]))
  const known = new Map(draft.keys)
  draft.keys.clear()
  for (const [id, row] of rows) draft.keys.set(id, withRow(known.get(id), row))
}

/** A stored pair with the leases that memory still holds for exactly its terms. */
function mergePair(stored: PairState, memory: Pair | undefined, nowMs: number): Pair {
  const isSameLend =
    memory !== undefined &&
    memory.lend.term === stored.lend.term &&
    memory.lend.borrowerIncarnation === stored.lend.borrowerIncarnation
  const isSameBorrow =
    memory !== undefined &&
    memory.borrow.incarnation === stored.borrow.incarnation &&
    memory.borrow.term === stored.borrow.term
  const isAlive = isSameBorrow && !memory.borrow.dead && !stored.borrow.dead
  return {
    lend: stored.lend,
    borrow: { ...stored.borrow, dead: !isAlive },
    // An unknown acknowledgement may have been given just now.
    ackedAtMs: isSameLend ? memory.ackedAtMs : nowMs,
    untilMs: isAlive ? memory.untilMs : null,
  }
}

function withRow(known: KeyState | undefined, row: LedgerRow): KeyState {
  if (known !== undefined) return { ...known, row }
  return { row, written: null, estimate: null, returned: 0, coolSinceMs: null, offer: null }
}

/**
 * Brings rows in line with the limits and with their pairs, once all are known. A pair is stored before its
 * rows, so a crash in between leaves loans of a term that is over: lent ones are taken back like any other.
 */
export function settle(draft: Draft): void {
  for (const id of draft.keys.keys()) {
    // Counters of removed limits and of usage before a reset are enforced nowhere any more.
    if (limitOf(draft, id) === null) forget(draft, id)
  }
  for (const [peer, pair] of draft.pairs) {
    dropForeignTerms(draft, peer)
    for (const key of draft.keys.values()) {
      const loan = key.row.lent[peer]
      if (loan !== undefined && loan.term !== pair.lend.term) takeBack(draft, key, peer, loan)
    }
  }
  resumeDrains(draft)
  followEpochs(draft)
}

function forgetLedger(state: LedgerState): LedgerState {
  const { limits, members, formerMembers, policyRevision, alarms } = state
  const known = { limits, members, formerMembers, policyRevision, alarms }
  return { ...createLedger(state.self), ...known }
}
