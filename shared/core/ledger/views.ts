/** What the ledger knows, for metrics, the audit and whoever looks at shares. Nothing here changes anything. */
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'
import { viewOf } from './draft.ts'
import { shareOfKey } from './flush.ts'
import { outstandingOf, quarantinedOf } from './rows.ts'
import type { LedgerState } from './state.ts'
import type { LedgerRow } from './types.ts'

/** What a region may use of one key. Units. */
export interface ShareView {
  readonly home: number
  readonly borrowed: number
  /** Instant of the daemon's clock at which `borrowed` falls away unless it is renewed. */
  readonly expiresAtMs: number | null
}

/** One tracked key as its region sees it. */
export interface KeyView extends ShareView {
  readonly id: CounterId
  readonly lent: number
  readonly quarantined: number
  readonly demandPerSecond: number
  readonly hungry: boolean
  readonly row: LedgerRow
}

/** This region's share of a key; null for a key without a ledger, which has the limit's home part. */
export function shareOf(state: LedgerState, id: CounterId, nowMs: number): ShareView | null {
  const key = state.keys.get(id)
  return key === undefined ? null : shareOfKey(viewOf(state, nowMs), key)
}

/** All tracked keys. */
export function rowsOf(state: LedgerState, nowMs: number): readonly KeyView[] {
  const view = viewOf(state, nowMs)
  return [...state.keys.values()].map((key) => ({
    ...shareOfKey(view, key),
    id: key.row.id,
    lent: outstandingOf(key.row),
    quarantined: quarantinedOf(key.row),
    demandPerSecond: key.estimate?.perSecond ?? 0,
    hungry: key.estimate?.hungry === true,
    row: key.row,
  }))
}

/** Time left of what was borrowed from each lender; only lenders whose lease runs. */
export function leasesOf(state: LedgerState, nowMs: number): ReadonlyMap<RegionId, number> {
  const leases = new Map<RegionId, number>()
  for (const [lender, pair] of state.pairs) {
    const leftMs = (pair.untilMs ?? nowMs) - nowMs
    if (leftMs > 0 && !pair.borrow.dead) leases.set(lender, leftMs)
  }
  return leases
}
