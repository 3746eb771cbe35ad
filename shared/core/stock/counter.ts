/**
 * One counter of a long window in a region's Redis. `lua/_stock.lua` does the same; a test compares them.
 *
 * A counter is *fresh* (its window began after this Redis' boot and nothing was stored), *known* (stored since the
 * boot), or *blind*: what it admitted in this window was forgotten, or may have been. A blind counter has spent its
 * floor, and all that it was allotted before: U := V at every boot. So is what a fresh counter was allotted before
 * without this Redis having heard of it.
 */
import type { Boot } from '../algorithms/algorithm.ts'
import type { Allotment } from './pool.ts'

/** A window that admin has opened, with what this region may spend in it without asking. */
export interface OpenedWindow {
  readonly startUs: number
  readonly endUs: number
  readonly floor: number
}

/** A region's boot; `number` tells it from all others, and what is stored names the one in which it was. */
export interface StockBoot extends Boot {
  readonly number: number
}

export interface StockState {
  readonly boot: number
  readonly startUs: number
  readonly count: number
  /** Confirmed by Postgres for this window; null before the first answer. */
  readonly allotted: number | null
  /** The daemon is told once no more than this is left; null: nothing more can be had. */
  readonly low: number | null
}

/** A counter at one instant. `window` null: admin has not opened the window, so nothing may be spent in it. */
export interface SettledStock extends Omit<StockState, 'startUs'> {
  readonly window: OpenedWindow | null
  /** Tokens that this region has in this window, spent ones included. */
  readonly most: number
  readonly remaining: number
}

/** What of an allotment is left when more is asked for: with `WANT_AIM_MS` in hand, some ten seconds of it. */
export const LOW_PART = 5

/** A clock that was ahead at a window's edge and is set back by no more than this goes on in the later window. */
export const EDGE_US = 100_000

export interface StockCircumstances {
  readonly windows: readonly OpenedWindow[]
  readonly boot: StockBoot
  readonly nowUs: number
}

export function settleStock(
  state: StockState | null,
  { windows, boot, nowUs }: StockCircumstances,
): SettledStock {
  const atUs =
    state !== null && state.startUs - nowUs <= EDGE_US ? Math.max(nowUs, state.startUs) : nowUs
  const window = windows.find(({ startUs, endUs }) => startUs <= atUs && atUs < endUs) ?? null
  if (window === null) {
    return { window, boot: boot.number, count: 0, allotted: null, low: null, most: 0, remaining: 0 }
  }
  const { count, allotted, low } = heldOf(state, window, boot)
  const most = window.floor + (allotted ?? 0)
  const remaining = boot.recovering ? 0 : Math.max(0, most - count)
  return { window, boot: boot.number, count, allotted, low, most, remaining }
}

function heldOf(
  state: StockState | null,
  { startUs, floor }: OpenedWindow,
  boot: StockBoot,
): Pick<StockState, 'count' | 'allotted' | 'low'> {
  const low = Math.floor(floor / LOW_PART)
  if (state === null || state.startUs < startUs) {
    return { count: startUs >= boot.startUs ? 0 : floor, allotted: null, low }
  }
  const isKnown = state.startUs === startUs && state.boot === boot.number
  return isKnown ? state : { count: floor, allotted: null, low }
}

/** Needs `cost <= remaining`. */
export function takeStock(settled: SettledStock, cost: number): SettledStock {
  return { ...settled, count: settled.count + cost, remaining: settled.remaining - cost }
}

/** Gives tokens of a check at `atUs` back; null where nothing may be credited. */
export function creditStock(
  settled: SettledStock,
  state: StockState | null,
  credit: { readonly cost: number; readonly atUs: number; readonly boot: StockBoot },
): SettledStock | null {
  const { window } = settled
  const { cost, atUs, boot } = credit
  const isKnown = state?.boot === boot.number && state.startUs === window?.startUs
  if (window === null || !isKnown) return null
  if (atUs < Math.max(window.startUs, boot.startUs) || atUs >= window.endUs) return null
  const count = Math.max(0, settled.count - cost)
  return { ...settled, count, remaining: Math.max(0, settled.most - count) }
}

/**
 * Takes in what Postgres has confirmed for the window that began at `startUs`; null for another window.
 *
 * Idempotent, and indifferent to order among the answers to questions of one session: the larger figure stays, and
 * only the first counts what went before it as spent.
 */
export function addAllotment(
  settled: SettledStock,
  answer: Allotment & { readonly startUs: number; readonly low: number | null },
): SettledStock | null {
  const { window } = settled
  if (window === null || window.startUs !== answer.startUs) return null
  const isFirst = settled.allotted === null
  const count = isFirst ? settled.count + answer.from : settled.count
  const allotted = Math.max(settled.allotted ?? 0, answer.to)
  const most = window.floor + allotted
  return {
    ...settled,
    count,
    allotted,
    low: answer.low,
    most,
    remaining: Math.max(0, most - count),
  }
}

/** Whether the daemon is to ask for more. */
export function isLow({ remaining, low }: SettledStock): boolean {
  return low !== null && remaining <= low
}

export function storeStock(settled: SettledStock): StockState {
  const { boot, count, allotted, low, window } = settled
  return { boot, startUs: window?.startUs ?? 0, count, allotted, low }
}
