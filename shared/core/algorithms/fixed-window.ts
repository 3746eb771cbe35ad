/**
 * Fixed window: at most the share's tokens in each window [k * W, (k + 1) * W) of Redis time, or of its calendar.
 *
 * The state keeps the window's beginning rather than its index, so that a changed window length needs no
 * translation: a count belongs to the present window when it began in it. The count of the window before is
 * kept because a share may not shrink below it just after the edge (`EDGE_US`).
 */
import { assert } from '../assert.ts'
import { shareTokens } from '../units.ts'
import { type Algorithm, type Circumstances, isAstray, type Settled, unitsAt } from './algorithm.ts'
import { type WindowEdges, windowEdges } from './edges.ts'

export interface WindowState {
  readonly version: number
  readonly startUs: number
  readonly count: number
  readonly previous: number
}

export interface SettledWindow extends Settled {
  readonly circumstances: Circumstances
  readonly stored: boolean
  readonly startUs: number
  readonly endUs: number
  /** Beginning of the window before it. */
  readonly previousUs: number
  readonly count: number
  readonly previous: number
  /** The window began before the region's levels start: what it admitted is not known. */
  readonly unknown: boolean
}

/**
 * Twice the wall-clock skew that is allowed between regions (50 ms).
 *
 * For so long after its own edge a region may not lend what it spent before the edge: a peer with a slower
 * clock is still in that window and would spend it again.
 */
export const EDGE_US = 100_000

/** A window's count outlives its end by this, for the rule above and for slips of the clock. */
const KEEP_MARGIN_MS = 1_000

export const fixedWindow: Algorithm<WindowState, SettledWindow> = {
  settle(state, circumstances) {
    const { limit, boot, nowUs } = circumstances
    const counted = countAt(state, circumstances)
    const unknown = counted.startUs < boot.startUs
    const most = shareTokens(limit.capacity, unitsAt(circumstances, limit, nowUs))
    return {
      circumstances,
      stored: state !== null,
      ...counted,
      unknown,
      most,
      remaining: unknown ? 0 : Math.max(0, most - counted.count),
      astray: isAstray(circumstances, counted.startUs),
    }
  },

  take(settled, cost) {
    assert(cost <= settled.remaining, 'a window never admits more than its share')
    return { ...settled, count: settled.count + cost, remaining: settled.remaining - cost }
  },

  giveBack(settled, { cost, atUs }) {
    const { limit, boot } = settled.circumstances
    const ofCost = windowEdges(limit, atUs)
    if (!settled.stored || ofCost.startUs !== settled.startUs || atUs < boot.startUs) return null
    const count = Math.max(0, settled.count - cost)
    const remaining = settled.unknown ? 0 : Math.max(0, settled.most - count)
    return { ...settled, count, remaining }
  },

  resize(settled, share, shrinks) {
    const circumstances = { ...settled.circumstances, share }
    const { limit, nowUs } = circumstances
    const most = shareTokens(limit.capacity, unitsAt(circumstances, limit, nowUs))
    if (shrinks && occupancy(settled) > most) return null
    const remaining = settled.unknown ? 0 : Math.max(0, most - settled.count)
    return { ...settled, circumstances, most, remaining, stored: true }
  },

  heal(settled) {
    const { limit, boot, nowUs } = settled.circumstances
    const edges = windowEdges(limit, nowUs)
    const unknown = edges.startUs < boot.startUs
    const remaining = unknown ? 0 : settled.remaining
    const healed = { ...settled, ...edges, unknown, remaining, astray: false }
    return { ...healed, previous: settled.count }
  },

  resetMs(settled) {
    const { limit, nowUs } = settled.circumstances
    const endUs = settled.astray ? windowEdges(limit, nowUs).endUs : settled.endUs
    return Math.ceil((endUs - nowUs) / 1_000)
  },

  waitMs(settled, cost) {
    return cost > settled.most ? null : fixedWindow.resetMs(settled)
  },

  store(settled) {
    return {
      version: settled.circumstances.limit.version,
      startUs: settled.startUs,
      count: settled.count,
      previous: settled.previous,
    }
  },

  keepMs(settled) {
    return fixedWindow.resetMs(settled) + KEEP_MARGIN_MS
  },
}

/** The window that counts now, what it admitted, and what the one before it did. */
function countAt(
  state: WindowState | null,
  { limit, nowUs }: Circumstances,
): WindowEdges & Pick<SettledWindow, 'count' | 'previous'> {
  const edges = windowEdges(limit, nowUs)
  if (state === null) return { ...edges, count: 0, previous: 0 }
  const { startUs, count, previous } = state
  // The clock went back: a window that has ended is never opened again with a fresh count.
  if (startUs > nowUs) return { ...windowEdges(limit, startUs), startUs, count, previous }
  // Equal, or the window was made longer and this one contains the old beginning.
  if (startUs >= edges.startUs) return { ...edges, count, previous }
  return { ...edges, count: 0, previous: startUs === edges.previousUs ? count : 0 }
}

/** Tokens that a share may not shrink below; just after an edge also those of the window before it. */
function occupancy(settled: SettledWindow): number {
  const { startUs, count, previous, circumstances } = settled
  const { boot, nowUs } = circumstances
  const isEarly = nowUs - startUs < EDGE_US
  const isUnknown = settled.unknown || (isEarly && settled.previousUs < boot.startUs)
  if (isUnknown) return Number.POSITIVE_INFINITY
  return isEarly ? Math.max(count, previous) : count
}
