/** What a reading of the region's Redis changes: demand, and which keys have a ledger of their own. */
import { needOf, rateOf } from '../allocation/allocator.ts'
import { beginDemand, type DemandEstimate, measureDemand } from '../allocation/demand.ts'
import { tokensAtOnce } from '../base-split.ts'
import type { CounterId } from '../descriptor.ts'
import { isOtherHungry } from './claims.ts'
import { CLOCK_SKEW_MAX_MS, COOL_AFTER_MS } from './constants.ts'
import { askToPublish, type Draft, forget, limitOf, track } from './draft.ts'
import { homePart } from './homes.ts'
import { rebalanceSoon, returnAll } from './rebalance.ts'
import { isEmpty } from './rows.ts'
import type { KeyState } from './state.ts'
import type { LedgerLimit, Sample } from './types.ts'

export interface Reading {
  readonly samples: readonly Sample[]
  readonly noticed: readonly CounterId[]
  readonly missing: readonly CounterId[]
}

export function measure(draft: Draft, reading: Reading): void {
  for (const id of reading.noticed) notice(draft, id)
  for (const id of reading.missing) rewrite(draft, id)
  const changed = reading.samples.filter((sample) => takeSample(draft, sample))
  rebalanceSoon(
    draft,
    changed.map(({ id }) => id),
  )
}

/**
 * Takes the store's clock as it was just read. When it was set, deadlines that were converted to it are written
 * anew: one set back would let a lapsed loan be used for as long as the step.
 */
export function useStoreClock(draft: Draft, storeOffsetMs: number): void {
  const movedMs = Math.abs(storeOffsetMs - draft.storeOffsetMs)
  draft.storeOffsetMs = storeOffsetMs
  if (movedMs <= CLOCK_SKEW_MAX_MS) return
  for (const [id, { written }] of draft.keys) {
    if (written !== null && written.expiresAtMs !== null) rewrite(draft, id)
  }
}

/**
 * Begins to track a key that ran short. It counts as hungry until its demand is known, and that is told at once:
 * peers then measure theirs while this region measures its own, and one wait serves both.
 */
function notice(draft: Draft, id: CounterId): void {
  if (limitOf(draft, id) === null) return
  if (draft.keys.has(id)) {
    // Noticed though tracked: the store has lost the share.
    rewrite(draft, id)
    return
  }
  const key = track(draft, id)
  if (key === null || key.estimate === null) return
  draft.keys.set(id, { ...key, estimate: { ...key.estimate, hungry: true } })
  askToPublish(draft, 'urgent')
}

function rewrite(draft: Draft, id: CounterId): void {
  const key = draft.keys.get(id)
  if (key === undefined) return
  draft.keys.set(id, { ...key, written: null })
  draft.touched.add(id)
}

/**
 * True when the estimate changed. A turn to hungry is published at once, and so is the first figure of a key that
 * ran short: others may have units to spare.
 */
function takeSample(draft: Draft, sample: Sample): boolean {
  const key = draft.keys.get(sample.id)
  const limit = limitOf(draft, sample.id)
  if (key === undefined || limit === null) return false
  const reading = { atMs: draft.nowMs, admitted: sample.admitted, denied: sample.denied }
  const estimate = nextEstimate(draft, key, limit, reading)
  if (estimate === key.estimate) return false
  const isKnownHungry = key.estimate?.hungry === true && key.estimate.perSecond !== null
  if (estimate.hungry && !isKnownHungry) askToPublish(draft, 'urgent')
  const coolSinceMs = isCool(draft, limit, estimate, sample.id)
    ? (key.coolSinceMs ?? draft.nowMs)
    : null
  const { returned } = sample
  draft.keys.set(sample.id, { ...key, estimate, returned, coolSinceMs })
  return true
}

function nextEstimate(
  draft: Draft,
  key: KeyState,
  limit: LedgerLimit,
  reading: { readonly atMs: number; readonly admitted: number; readonly denied: number },
): DemandEstimate {
  if (key.estimate === null) return beginDemand(reading)
  return measureDemand(key.estimate, reading, {
    tokensPerSecond: rateOf(limit),
    tokensAtOnce: tokensAtOnce(limit),
    isOtherHungry: isOtherHungry(draft, key.row.id),
  })
}

/** True while this region needs at most half of its own part and nobody is short of this key. */
function isCool(
  draft: Draft,
  limit: LedgerLimit,
  estimate: DemandEstimate,
  id: CounterId,
): boolean {
  if (estimate.hungry || isOtherHungry(draft, id)) return false
  return needOf(estimate.perSecond ?? 0, limit) <= homePart(draft, limit) / 2
}

/** Gives back what cooled keys borrowed, and forgets those that have nothing left. Others forget theirs alike. */
export function coolDown(draft: Draft): void {
  for (const [id, key] of draft.keys) {
    if (key.coolSinceMs === null || draft.nowMs - key.coolSinceMs < COOL_AFTER_MS) continue
    if (isEmpty(key.row)) forget(draft, id)
    else if (limitOf(draft, id)?.lending !== 'frozen') returnAll(draft, id)
  }
}
