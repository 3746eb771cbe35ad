/**
 * The lending ledger of one region: one event in, the next state and the effects out.
 *
 * Pure and deterministic: time is an argument and everything else is in the state, so the simulation runs the
 * very code that the daemon runs. The order of effects is the protocol's order: shrink, make it durable, then
 * tell; hear, then grow.
 */
import { assert, unreachable } from '../assert.ts'
import type { RegionId } from '../policy.ts'
import { endTerm, followLife, lapseAllDue } from './borrower.ts'
import { askToPublish, closeDraft, type Draft, openDraft } from './draft.ts'
import { confirmShares, flush } from './flush.ts'
import { adoptEpochs, endRecovery } from './homes.ts'
import { reclaimLapsed, releaseQuarantines } from './lender.ts'
import { coolDown, measure, useStoreClock } from './measure.ts'
import { rebalance, rebalanceAll } from './rebalance.ts'
import { receiveRecord } from './receive.ts'
import { keepMemory, settle, start } from './start.ts'
import type { LedgerState } from './state.ts'
import type { LedgerEffect, LedgerEvent } from './types.ts'

export interface Step {
  readonly state: LedgerState
  /** To be carried out in order, each confirmed before the next and before any other event. */
  readonly effects: readonly LedgerEffect[]
}

/**
 * What one event leads to at `nowMs` of the daemon's monotonic clock.
 *
 * Until both `started` and `limits` have come, other events change nothing. While shares are on their way to the
 * store only their outcome may come, or a start that settles the doubt.
 */
export function step(state: LedgerState, event: LedgerEvent, nowMs: number): Step {
  const isAnswer = event.kind === 'shares-written' || event.kind === 'started'
  assert(state.pending === null || isAnswer, 'no event comes between shares and their outcome')
  const isActing = state.incarnation > 0 && state.limits !== null
  if (!isActing && event.kind !== 'started' && event.kind !== 'limits')
    return { state, effects: [] }
  if (event.kind === 'limits' && event.policyRevision < state.policyRevision) {
    return { state, effects: [] }
  }
  const known = event.kind === 'started' ? keepMemory(state, event) : state
  const draft = openDraft(known, nowMs)
  apply(draft, event)
  const effects = draft.incarnation > 0 && draft.limits !== null ? flush(draft) : []
  return { state: closeDraft(draft), effects }
}

function apply(draft: Draft, event: LedgerEvent): void {
  switch (event.kind) {
    case 'started':
      start(draft, event)
      if (draft.limits !== null) settle(draft)
      break
    case 'limits':
      useLimits(draft, event)
      break
    case 'measured':
      useStoreClock(draft, event.storeOffsetMs)
      adoptEpochs(draft)
      measure(draft, event)
      break
    case 'record':
      adoptEpochs(draft)
      receiveRecord(draft, event.record)
      endRecovery(draft)
      break
    case 'shares-written':
      adoptEpochs(draft)
      // A window had room for less: what it has room for is found by halving, at once.
      for (const id of confirmShares(draft, event.outcomes)) rebalance(draft, id)
      break
    case 'tick':
      tick(draft)
      break
    default:
      unreachable(event)
  }
}

function useLimits(draft: Draft, event: Extract<LedgerEvent, { kind: 'limits' }>): void {
  draft.limits = event.limits
  draft.members = [...event.members].sort()
  draft.formerMembers = event.formerMembers
  draft.policyRevision = event.policyRevision
  draft.reach = null
  draft.mustWriteHomes = true
  for (const peer of draft.heard.keys()) {
    if (!draft.members.includes(peer)) removePeer(draft, peer)
  }
  for (const [peer, least] of Object.entries(event.leastIncarnations)) {
    if (peer !== draft.self) followLife(draft, peer, least)
  }
  settle(draft)
  askToPublish(draft, 'tick')
}

/**
 * A region that was removed is neither heard nor acknowledged any more: what it borrowed here ends by itself. What
 * it lent ends at once: when it returns, a late record of its past could not be told from a new one.
 */
function removePeer(draft: Draft, peer: RegionId): void {
  draft.heard.delete(peer)
  draft.reach = null
  if (draft.pairs.has(peer)) endTerm(draft, peer)
}

function tick(draft: Draft): void {
  lapseAllDue(draft)
  reclaimLapsed(draft)
  releaseQuarantines(draft)
  endRecovery(draft)
  adoptEpochs(draft)
  coolDown(draft)
  rebalanceAll(draft)
  for (const [id, key] of draft.keys) {
    // Leases that were renewed since must reach the store before the old deadline does.
    if (Object.keys(key.row.borrowed).length > 0) draft.touched.add(id)
  }
  askToPublish(draft, 'tick')
}
