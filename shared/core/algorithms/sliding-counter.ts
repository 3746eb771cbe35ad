/**
 * Sliding counter: the tokens of the present fixed window, and as much of the last one's as still lies within a window
 * of now, as if they had come evenly.
 *
 * What it keeps to the share is this estimate. A true window may hold nearly twice as much where traffic is uneven:
 * `sliding_window` is the one whose true windows hold.
 */
import { assert } from '../assert.ts'
import type { RegionLimit } from '../policy.ts'
import { shareTokens } from '../units.ts'
import { type Algorithm, type Circumstances, isAstray, type Settled, unitsAt } from './algorithm.ts'

export interface CounterState {
  readonly version: number
  readonly startUs: number
  readonly count: number
  readonly previous: number
}

export interface SettledCounter extends Settled {
  readonly circumstances: Circumstances
  readonly stored: boolean
  readonly startUs: number
  readonly count: number
  readonly previous: number
  /** This window or the last began before the region's levels start: what they admitted is not known. */
  readonly isBlind: boolean
}

type Counts = Pick<CounterState, 'startUs' | 'count' | 'previous'>

/** A count outlives what it is good for by this, for slips of the clock. */
const KEEP_MARGIN_MS = 1_000

/** Digits of 7 bits: the product of one with a window's microseconds is exact. */
const DIGIT = 128
const DIGITS = 8

export const slidingCounter: Algorithm<CounterState, SettledCounter> = {
  settle(state, circumstances) {
    const { limit, boot } = circumstances
    const windowUs = limit.windowMs * 1_000
    const counts = countsAt(state, circumstances)
    const settled = {
      circumstances,
      stored: state !== null,
      ...counts,
      isBlind: counts.startUs - windowUs < boot.startUs,
      astray: isAstray(circumstances, counts.startUs),
    }
    return { ...settled, ...room(settled) }
  },

  take(settled, cost) {
    assert(cost <= settled.remaining, 'an estimate never exceeds its share')
    return { ...settled, count: settled.count + cost, remaining: settled.remaining - cost }
  },

  giveBack(settled, { cost, atUs }) {
    const { limit, boot } = settled.circumstances
    const isOfWindow = windowStart(atUs, limit.windowMs * 1_000) === settled.startUs
    if (!settled.stored || !isOfWindow || atUs < boot.startUs) return null
    const credited = { ...settled, count: Math.max(0, settled.count - cost) }
    return { ...credited, ...room(credited) }
  },

  resize(settled, share, shrinks) {
    const resized = { ...settled, circumstances: { ...settled.circumstances, share } }
    const { most, remaining } = room(resized)
    if (shrinks && (settled.isBlind || estimate(settled) > most)) return null
    return { ...resized, most, remaining, stored: true }
  },

  heal(settled) {
    const { limit, boot, nowUs } = settled.circumstances
    const windowUs = limit.windowMs * 1_000
    const startUs = windowStart(nowUs, windowUs)
    const isBlind = startUs - windowUs < boot.startUs
    const healed = { ...settled, startUs, isBlind, astray: false }
    return { ...healed, ...room(healed) }
  },

  resetMs(settled) {
    const { limit, nowUs } = settled.circumstances
    const windowUs = limit.windowMs * 1_000
    const startUs = settled.astray ? windowStart(nowUs, windowUs) : settled.startUs
    if (settled.count > 0) return msFrom(nowUs, startUs + 2 * windowUs)
    return settled.previous > 0 || settled.isBlind ? msFrom(nowUs, startUs + windowUs) : 0
  },

  waitMs(settled, cost) {
    if (cost > settled.most) return null
    const { limit, nowUs } = settled.circumstances
    const windowUs = limit.windowMs * 1_000
    if (settled.isBlind) return msFrom(nowUs, knownFrom(settled))
    const startUs = settled.astray ? windowStart(nowUs, windowUs) : settled.startUs
    const left = settled.most - settled.count - cost
    const freeUs =
      left >= 0
        ? startUs + elapsedFor(settled.previous, windowUs, left)
        : startUs + windowUs + elapsedFor(settled.count, windowUs, settled.most - cost)
    return msFrom(nowUs, freeUs)
  },

  store({ circumstances, startUs, count, previous }) {
    return { version: circumstances.limit.version, startUs, count, previous }
  },

  keepMs({ circumstances, startUs }) {
    const { limit, nowUs } = circumstances
    return msFrom(nowUs, startUs + 2 * limit.windowMs * 1_000) + KEEP_MARGIN_MS
  },
}

/** The window that counts now, its tokens and those of the one before it. */
function countsAt(state: CounterState | null, { limit, nowUs }: Circumstances): Counts {
  const windowUs = limit.windowMs * 1_000
  const startUs = windowStart(nowUs, windowUs)
  if (state === null) return { startUs, count: 0, previous: 0 }
  const counts = isOtherWindow(state, limit) ? folded(state, limit) : state
  const { count, previous } = counts
  // The clock went back: a window that has ended is never opened again with a fresh count.
  if (counts.startUs > nowUs) return { startUs: counts.startUs, count, previous }
  if (counts.startUs === startUs) return { startUs, count, previous }
  const adjoins = counts.startUs + windowUs === startUs
  return { startUs, count: 0, previous: adjoins ? count : 0 }
}

/** Whether the state was counted in windows of another length, or may have been. */
function isOtherWindow(state: CounterState, { version, windowMs, previous }: RegionLimit): boolean {
  if (state.version === version) return false
  return previous?.version !== state.version || previous.windowMs !== windowMs
}

/** Tokens counted in other windows belong to the one in which the length changed: not before they were admitted. */
function folded(state: CounterState, { windowMs, changedAtUs }: RegionLimit): Counts {
  const startUs = windowStart(changedAtUs, windowMs * 1_000)
  return { startUs, count: state.count + state.previous, previous: 0 }
}

function room(
  settled: Counts & Pick<SettledCounter, 'circumstances' | 'isBlind'>,
): Pick<Settled, 'most' | 'remaining'> {
  const { limit, nowUs } = settled.circumstances
  const most = shareTokens(limit.capacity, unitsAt(settled.circumstances, limit, nowUs))
  return { most, remaining: settled.isBlind ? 0 : Math.max(0, most - estimate(settled)) }
}

function estimate(settled: Counts & Pick<SettledCounter, 'circumstances'>): number {
  const { limit, nowUs } = settled.circumstances
  const windowUs = limit.windowMs * 1_000
  const elapsedUs = Math.max(0, nowUs - settled.startUs)
  return settled.count + weighted(settled.previous, windowUs, windowUs - elapsedUs)
}

/** `tokens` times `partUs` / `windowUs`, rounded up, exact for every token count. */
export function weighted(tokens: number, windowUs: number, partUs: number): number {
  const product = tokens * partUs
  // Below 2^53 the product is exact, and a quotient of such numbers is rounded to a whole number only if it is one.
  if (product <= Number.MAX_SAFE_INTEGER) return Math.ceil(product / windowUs)
  let [quotient, rest] = [0, 0]
  for (let digit = DIGITS - 1; digit >= 0; digit--) {
    const part = Math.floor(tokens / DIGIT ** digit) % DIGIT
    const dividend = rest * DIGIT + part * partUs
    const times = Math.floor(dividend / windowUs)
    quotient = quotient * DIGIT + times
    rest = dividend - times * windowUs
  }
  return rest > 0 ? quotient + 1 : quotient
}

/** Least part of a window after which at most `left` of `tokens` of the window before still count. */
function elapsedFor(tokens: number, windowUs: number, left: number): number {
  if (tokens <= left) return 0
  let elapsedUs = windowUs - Math.floor(left * (windowUs / tokens))
  // The division may be off by a microsecond.
  while (weighted(tokens, windowUs, windowUs - elapsedUs) > left) elapsedUs += 1
  while (elapsedUs > 0 && weighted(tokens, windowUs, windowUs - elapsedUs + 1) <= left) {
    elapsedUs -= 1
  }
  return elapsedUs
}

/** The beginning of the first window whose predecessor began after the levels did. */
function knownFrom({ circumstances: { limit, boot } }: SettledCounter): number {
  const windowUs = limit.windowMs * 1_000
  return Math.ceil(boot.startUs / windowUs) * windowUs + windowUs
}

function windowStart(atUs: number, windowUs: number): number {
  return Math.floor(atUs / windowUs) * windowUs
}

function msFrom(nowUs: number, atUs: number): number {
  return Math.max(0, Math.ceil((atUs - nowUs) / 1_000))
}
