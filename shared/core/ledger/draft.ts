/**
 * One step in the making: the next state, open for change, and what the step has touched.
 *
 * Only the modules of this folder see a draft, and only within one call of `step`; what they leave behind is
 * turned into effects once, at the end, so no rule needs to know how shares are written.
 */
import { beginDemand } from '../allocation/demand.ts'
import { parseCounterId } from '../counter-id.ts'
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import { TRACKED_KEYS_MAX } from './constants.ts'
import { CopyOnWrite } from './copy-on-write.ts'
import { emptyRow } from './rows.ts'
import {
  type Alarm,
  type EpochProgress,
  type Heard,
  type KeyState,
  type LedgerState,
  type Pair,
  type PublishNeed,
  STRANGER,
  type Suspicion,
} from './state.ts'
import type { LedgerLimit, LedgerRow } from './types.ts'

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** What shares and home parts are worked out from: a state at an instant. */
export interface View extends LedgerState {
  readonly nowMs: number
  /** Base parts by limit and region, worked out once. */
  readonly bases: Map<number, ReadonlyMap<RegionId, number>>
}

export function viewOf(state: LedgerState, nowMs: number): View {
  return { ...state, nowMs, bases: new Map() }
}

/** All members by their place in the order of names: what each last said, and whether it is in reach. */
export interface Reach {
  readonly places: ReadonlyMap<RegionId, number>
  /** This region itself is not heard. */
  readonly heard: readonly (Heard | undefined)[]
  readonly isNear: readonly boolean[]
  /** Parts of a limit by its bases. */
  readonly parts: Map<ReadonlyMap<RegionId, number>, readonly Part[]>
}

/** A region's own part of a limit, and what of it is never lent. Units. */
export interface Part {
  readonly base: number
  readonly floor: number
}

export interface Draft
  extends Omit<
    Mutable<LedgerState>,
    'heard' | 'pairs' | 'keys' | 'epochs' | 'drains' | 'alarms' | 'suspects'
  > {
  readonly nowMs: number
  readonly heard: CopyOnWrite<RegionId, Heard>
  readonly pairs: CopyOnWrite<RegionId, Pair>
  readonly keys: CopyOnWrite<CounterId, KeyState>
  readonly epochs: CopyOnWrite<number, EpochProgress>
  readonly drains: CopyOnWrite<number, number>
  readonly alarms: Record<Alarm, number>
  readonly suspects: CopyOnWrite<RegionId, Suspicion>
  /** Keys whose share may differ from what the store holds. */
  readonly touched: Set<CounterId>
  /** Keys no longer tracked, to be taken out of the store. */
  readonly forgotten: Set<CounterId>
  /** Keys that shrink by choice, as they were before: such a write may be refused. */
  readonly before: Map<CounterId, KeyState>
  readonly changedPairs: Set<RegionId>
  /** The home parts must be written even if they come out as before: the limits' numbers changed, or a recovery ended. */
  mustWriteHomes: boolean
  /** The state that the step began with. */
  readonly origin: LedgerState
  /** Base parts by limit and region, worked out once a step. */
  readonly bases: Map<number, ReadonlyMap<RegionId, number>>
  /** Who is in reach, worked out once a step; null: to be worked out. */
  reach: Reach | null
  publish: PublishNeed
}

export function openDraft(state: LedgerState, nowMs: number): Draft {
  return {
    ...state,
    nowMs,
    heard: new CopyOnWrite(state.heard),
    pairs: new CopyOnWrite(state.pairs),
    keys: new CopyOnWrite(state.keys),
    epochs: new CopyOnWrite(state.epochs),
    drains: new CopyOnWrite(state.drains),
    alarms: { ...state.alarms },
    suspects: new CopyOnWrite(state.suspects),
    touched: new Set(),
    forgotten: new Set(),
    before: new Map(),
    changedPairs: new Set(),
    mustWriteHomes: false,
    origin: state,
    bases: new Map(),
    reach: null,
    publish: 'none',
  }
}

export function closeDraft(draft: Draft): LedgerState {
  const {
    nowMs: _nowMs,
    touched: _touched,
    forgotten: _forgotten,
    before: _before,
    changedPairs: _changedPairs,
    mustWriteHomes: _mustWriteHomes,
    origin: _origin,
    bases: _bases,
    reach: _reach,
    publish: _publish,
    ...state
  } = draft
  return {
    ...state,
    heard: draft.heard.result(),
    pairs: draft.pairs.result(),
    keys: draft.keys.result(),
    epochs: draft.epochs.result(),
    drains: draft.drains.result(),
    suspects: draft.suspects.result(),
  }
}

/** The instant by the clock that labels windows. */
export function storeNow(draft: {
  readonly nowMs: number
  readonly storeOffsetMs: number
}): number {
  return draft.nowMs + draft.storeOffsetMs
}

/** The limit that a key counts for, if it is known and the key is of its running usage epoch. */
export function limitOf(
  state: { readonly limits: ReadonlyMap<number, LedgerLimit> | null },
  id: CounterId,
): LedgerLimit | null {
  const parts = parseCounterId(id)
  if (parts === null) return null
  const limit = state.limits?.get(parts.limitId)
  return limit?.usageEpoch === parts.usageEpoch ? limit : null
}

/** Notes what only a bug or a forger explains. What was said is not acted on; the caller sees to that. */
export function raiseAlarm(draft: Draft, peer: RegionId, alarm: Alarm): void {
  draft.alarms[alarm] += 1
  draft.suspects.set(peer, { alarm, atMs: draft.nowMs })
}

export function pairOf(draft: Draft, peer: RegionId): Pair {
  return draft.pairs.get(peer) ?? STRANGER
}

/** Changes a pair. If its stored part changes, that is written before anything else of the step. */
export function setPair(draft: Draft, peer: RegionId, pair: Pair): void {
  const { lend, borrow } = pairOf(draft, peer)
  draft.pairs.set(peer, pair)
  const isSameLend =
    lend.term === pair.lend.term &&
    lend.borrowerIncarnation === pair.lend.borrowerIncarnation &&
    lend.born === pair.lend.born
  const isSameBorrow =
    borrow.incarnation === pair.borrow.incarnation &&
    borrow.term === pair.borrow.term &&
    borrow.dead === pair.borrow.dead
  if (!isSameLend || !isSameBorrow) draft.changedPairs.add(peer)
}

export function setRow(draft: Draft, key: KeyState, row: LedgerRow): void {
  draft.keys.set(row.id, { ...key, row })
  draft.touched.add(row.id)
}

/** Begins to track a key, or counts it as one too many. Its demand is measured from now on. */
export function track(draft: Draft, id: CounterId): KeyState | null {
  const known = draft.keys.get(id)
  if (known !== undefined) return known
  if (draft.keys.size >= TRACKED_KEYS_MAX) {
    draft.untrackedKeys += 1
    return null
  }
  const key: KeyState = {
    row: emptyRow(id),
    written: null,
    // The store begins to count at zero when it gets the key's share.
    estimate: beginDemand({ atMs: draft.nowMs, admitted: 0, denied: 0 }),
    returned: 0,
    coolSinceMs: null,
    offer: null,
  }
  draft.keys.set(id, key)
  draft.touched.add(id)
  draft.forgotten.delete(id)
  return key
}

export function forget(draft: Draft, id: CounterId): void {
  draft.keys.delete(id)
  draft.touched.delete(id)
  draft.before.delete(id)
  draft.forgotten.add(id)
}

export function askToPublish(draft: Draft, need: PublishNeed): void {
  if (need === 'urgent' || draft.publish === 'none') draft.publish = need
}
