/**
 * The account of one counter in one long window, as admin keeps it in Postgres.
 *
 * Floors are pinned when the window is opened, the same for every counter of the limit, so that a counter that no
 * region uses beyond its floor needs no account at all. All else is allotted on request.
 */
import { assert } from '../assert.ts'
import { floorOf } from '../base-split.ts'
import type { BaseSplit, RegionId } from '../policy.ts'
import { shareTokens } from '../units.ts'

/** Tokens by region. */
export type Tokens = Readonly<Record<RegionId, number>>

export interface Pool {
  /** As the limit has it at the time of the request. */
  readonly capacity: number
  /** What each region may spend without asking, pinned for the window. */
  readonly floors: Tokens
  /** Given to each region so far on top of its floor. Never falls. */
  readonly allotted: Tokens
  /** What each region's last allotment answered. */
  readonly asked?: Readonly<Record<RegionId, Asked>>
}

/** A question that was answered, and what the region had before it. */
export interface Asked {
  readonly question: string
  readonly from: number
}

/** What a region was given before an answer, and with it; `to === from`: nothing is left. */
export interface Allotment {
  readonly from: number
  readonly to: number
}

/**
 * At least this part of what is left is given at a time, so that a steady caller costs a hundred requests or so a
 * window and a region has some hours in hand when admin is away. A lost Redis wastes at most one such part a key.
 */
const LEAST_PART = 100

/** Floors of a window that is opened now; their sum is at most the capacity. */
export function floorsOf(limit: {
  readonly capacity: number
  readonly floorPercent: number
  readonly base: BaseSplit
}): Tokens {
  const { capacity, floorPercent } = limit
  const rule = { capacity, floorPercent, burst: capacity, algorithm: 'fixed_window' } as const
  return Object.fromEntries(
    Object.entries(limit.base).map(([region, units]) => [
      region,
      shareTokens(capacity, floorOf(units, rule)),
    ]),
  )
}

/**
 * Gives `region` more of the pool: what it wants or a hundredth of what is left, whichever is more, but no more
 * than half of its equal part of that, so that no region ends up with what another then lacks.
 *
 * A question that was answered is answered as before: its answer was lost, so nothing of it can have been spent. A
 * region never asks the same question once it has taken an answer in.
 */
export function allot(
  pool: Pool,
  ask: { readonly region: RegionId; readonly want: number; readonly question?: string | undefined },
): Allotment {
  const from = pool.allotted[ask.region] ?? 0
  const last = pool.asked?.[ask.region]
  if (last !== undefined && last.question === ask.question) return { from: last.from, to: from }
  const left = Math.max(0, pool.capacity - sum(pool.floors) - sum(pool.allotted))
  const regions = new Set([...Object.keys(pool.floors), ...Object.keys(pool.allotted), ask.region])
  const fair = Math.ceil(left / (2 * regions.size))
  const given = Math.min(left, fair, Math.max(ask.want, Math.ceil(left / LEAST_PART)))
  assert(given >= 0 && Number.isSafeInteger(from + given), 'an allotment is a number of tokens')
  return { from, to: from + given }
}

function sum(tokens: Tokens): number {
  return Object.values(tokens).reduce((all, one) => all + one, 0)
}
