/**
 * What every algorithm of a limit is made of, and the arithmetic they share.
 *
 * Each is a set of pure functions over a small state, entered in `registry.ts`. A Lua file of the same name holds the
 * same arithmetic, operation by operation, and a test compares the two on a real Redis: change both or neither.
 *
 * Settling is piecewise. Between two instants a counter can meet two changes: its limit's numbers changed at
 * `limit.changedAtUs`, and the borrowed part of its share ends at `share.expUs`. Each stretch is settled with
 * what was true in it; refilling the whole time with the numbers of the end would mint tokens.
 */
import { hasBurst, type LimitNumbers, type RegionLimit } from '../policy.ts'
import type { LimitDecision } from '../ports.ts'

/** Part of a limit that one tracked counter may use. Units; `expUs` is 0 while nothing is borrowed. */
export interface Share {
  readonly home: number
  readonly borrowed: number
  readonly expUs: number
}

/** What a region knows of its counters' past: levels begin at `startUs` (0: no earlier loss is possible). */
export interface Boot {
  readonly startUs: number
  readonly recovering: boolean
}

/** All that decides a counter but its state. `share` null: untracked, the limit's home part applies. */
export interface Circumstances {
  readonly limit: RegionLimit
  readonly share: Share | null
  readonly boot: Boot
  readonly nowUs: number
}

/** What every algorithm knows of a counter at one instant. */
export interface Settled {
  /** Whole tokens that can be taken now. */
  readonly remaining: number
  /** Whole tokens that the present share can ever give at once. */
  readonly most: number
  /** The counter lies in the future by more than a clock may slip; a denial moves it back. */
  readonly astray: boolean
}

/** What is given back: tokens that were taken at `atUs`, and by whom where holders count. */
export interface Return {
  readonly cost: number
  readonly atUs: number
  readonly holder?: string
}

/**
 * One way to hold a limit. All are pure; `State` is what is stored.
 *
 * `settle` brings a state (null: none stored) to an instant. `take` needs `cost <= remaining` or a holder that holds
 * already. `giveBack` gives null when nothing may be credited. `resize`
 * gives the state under another share, or null when the window has already admitted more than it. `heal` gives the
 * state that a denial stores when `astray`.
 */
export interface Algorithm<State, S extends Settled> {
  settle(state: State | null, circumstances: Circumstances): S
  take(settled: S, cost: number, holder?: string): S
  giveBack(settled: S, given: Return): S | null
  resize(settled: S, share: Share | null, shrinks: boolean): S | null
  heal(settled: S): S
  /** Until full again or the window's end. */
  resetMs(settled: S): number
  /** Least wait until `cost` can pass under the present share; null when never. */
  waitMs(settled: S, cost: number): number | null
  store(settled: S): State
  /** How long the state must be kept: once it is gone, the counter is as if never used. */
  keepMs(settled: S): number
  /** Of algorithms that count holders: whether this one holds tokens already, so that it needs no more. */
  holds?(settled: S, holder: string): boolean
  /** Of algorithms that count holders: what it held is free again, as `free`; null when it held nothing. */
  release?(settled: S, holder: string): S | null
}

/** A fraction this close to a whole token counts as one, so that rounding never refuses a token that is due. */
export const SNAP_TOKENS_MAX = 1e-9

/** The largest cost that can ever pass, whatever the share. */
export function mostAtOnce(limit: RegionLimit): number {
  return hasBurst(limit.algorithm) ? limit.burst : limit.capacity
}

/** Units that a counter may use just after `atUs`. While recovering: none. */
export function unitsAt(circumstances: Circumstances, numbers: LimitNumbers, atUs: number): number {
  const { share, boot } = circumstances
  if (boot.recovering) return 0
  const home = share === null ? numbers.home : share.home
  return share !== null && atUs < share.expUs ? home + share.borrowed : home
}

/** Whether a state that stands for `atUs` lies in the future by more than a window: the clock was set back. */
export function isAstray({ limit, boot, nowUs }: Circumstances, atUs: number): boolean {
  return atUs > Math.max(nowUs, boot.startUs) + limit.windowMs * 1_000
}

/** What a check is told when its cost is taken (`allowed`) or not; `settled` is the counter afterwards. */
export function describe<State, S extends Settled>(
  algorithm: Algorithm<State, S>,
  settled: S,
  verdict: { readonly allowed: boolean; readonly cost: number; readonly limit: RegionLimit },
): LimitDecision {
  const { remaining } = settled
  const resetMs = algorithm.resetMs(settled)
  if (verdict.allowed) {
    return { allowed: true, reason: null, remaining, resetMs, retryAfterMs: null }
  }
  if (verdict.cost > mostAtOnce(verdict.limit)) {
    const reason = 'cost_exceeds_capacity'
    return { allowed: false, reason, remaining, resetMs, retryAfterMs: null }
  }
  const retryAfterMs = algorithm.waitMs(settled, neededFor(verdict.cost))
  return { allowed: false, reason: 'limit', remaining, resetMs, retryAfterMs }
}

/** Whether the counter, alone, lets `cost` pass. A read (cost 0) says whether one token would. */
export function allows(settled: Settled, limit: RegionLimit, cost: number): boolean {
  return cost <= mostAtOnce(limit) && neededFor(cost) <= settled.remaining
}

function neededFor(cost: number): number {
  return Math.max(cost, 1)
}
