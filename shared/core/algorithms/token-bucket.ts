/**
 * Token bucket: refills continuously at capacity per window, holds at most the burst; both times the share.
 *
 * A level is kept as whole tokens and a fraction, so that a token is never lost to rounding even at 2^53. A
 * denial and a read change nothing: the fraction is not added up again with each refused check.
 */
import { assert } from '../assert.ts'
import type { LimitNumbers, RegionLimit } from '../policy.ts'
import { POOL_UNITS, shareBurst } from '../units.ts'
import {
  type Algorithm,
  type Circumstances,
  isAstray,
  type Settled,
  SNAP_TOKENS_MAX,
  unitsAt,
} from './algorithm.ts'

export interface BucketState {
  /** `RegionLimit.version` that it was settled with. */
  readonly version: number
  readonly whole: number
  readonly fraction: number
  readonly lastUs: number
}

/** Rate and size of a bucket under some numbers and units. */
interface Terms {
  readonly ratePerUs: number
  readonly capWhole: number
  readonly capFraction: number
  readonly snap: number
}

interface Level {
  readonly whole: number
  readonly fraction: number
}

export interface SettledBucket extends Settled {
  readonly circumstances: Circumstances
  /** False when there is no stored state to give tokens back to. */
  readonly stored: boolean
  readonly fraction: number
  readonly lastUs: number
  readonly terms: Terms
}

/**
 * A state is kept for this many times what it takes to fill an empty bucket, which is about the same for every
 * share, and two seconds more for the whole seconds in which its age is kept.
 *
 * The expiry is renewed once a quarter has passed, so three quarters must always be enough to fill. They are 5 %
 * more than that because the rounding of `shareBurst` lets a small share hold a little more than its part.
 */
const KEEP_FACTOR = 1.4
const KEEP_MARGIN_MS = 2_000
const KEEP_MS_MAX = 9e15

export const tokenBucket: Algorithm<BucketState, SettledBucket> = {
  settle(state, circumstances) {
    const { limit, nowUs } = circumstances
    const { level, lastUs } = refill(state, circumstances)
    const terms = termsOf(limit, unitsAt(circumstances, limit, nowUs))
    const { whole, fraction } = clamp(level, terms)
    const settled = {
      circumstances,
      stored: state !== null,
      remaining: whole,
      fraction,
      most: terms.capWhole,
      lastUs: Math.max(lastUs, nowUs),
      astray: isAstray(circumstances, lastUs),
      terms,
    }
    // No bucket owes anything: one that seems to is empty, and is healed as one from the future.
    return whole < 0
      ? { ...settled, remaining: 0, fraction: 0, lastUs: nowUs, astray: true }
      : settled
  },

  take(settled, cost) {
    assert(cost <= settled.remaining, 'a bucket is never overdrawn')
    return { ...settled, remaining: settled.remaining - cost }
  },

  giveBack(settled, { cost, atUs }) {
    const { limit, boot, nowUs } = settled.circumstances
    const isKnown = atUs <= nowUs && atUs >= boot.startUs && atUs >= limit.changedAtUs
    if (!settled.stored || !isKnown) return null
    const credit = cost - refilledSince(limit, nowUs - atUs)
    if (credit <= 0) return null
    const level = { whole: settled.remaining, fraction: settled.fraction }
    const { whole, fraction } = add(level, settled.terms, credit)
    return { ...settled, remaining: whole, fraction }
  },

  resize(settled, share) {
    const circumstances = { ...settled.circumstances, share }
    const { limit, nowUs } = circumstances
    const terms = termsOf(limit, unitsAt(circumstances, limit, nowUs))
    const { whole, fraction } = clamp(
      { whole: settled.remaining, fraction: settled.fraction },
      terms,
    )
    return {
      ...settled,
      circumstances,
      terms,
      remaining: whole,
      fraction,
      most: terms.capWhole,
      stored: true,
    }
  },

  heal(settled) {
    const { nowUs, boot } = settled.circumstances
    return { ...settled, lastUs: Math.max(nowUs, boot.startUs), astray: false }
  },

  resetMs(settled) {
    const { capWhole, capFraction } = settled.terms
    return timeToMs(settled, capWhole - settled.remaining + (capFraction - settled.fraction)) ?? 0
  },

  waitMs(settled, cost) {
    if (cost > settled.most) return null
    return timeToMs(settled, cost - settled.remaining - settled.fraction)
  },

  store(settled) {
    return {
      version: settled.circumstances.limit.version,
      whole: settled.remaining,
      fraction: settled.fraction,
      lastUs: settled.lastUs,
    }
  },

  keepMs: ({ circumstances: { limit } }) => keepMsOf(limit),
}

/**
 * What the limit refilled meanwhile, in every region together.
 *
 * Had the tokens that are given back stayed in a bucket, it may have been full, and this much would not have been
 * refilled beside them. So with no more than the rest credited, the levels of all regions and what is still to be given
 * back never rise faster than the limit refills, whatever shares moved meanwhile.
 */
function refilledSince(limit: LimitNumbers, elapsedUs: number): number {
  return (limit.capacity * elapsedUs) / (limit.windowMs * 1_000)
}

/** How long the state of a bucket of these numbers is kept. */
export function keepMsOf(limit: LimitNumbers): number {
  if (limit.capacity === 0) return KEEP_MARGIN_MS
  const fullMs = (limit.burst / limit.capacity) * limit.windowMs
  return Math.min(Math.ceil(fullMs * KEEP_FACTOR) + KEEP_MARGIN_MS, KEEP_MS_MAX)
}

export function termsOf(numbers: LimitNumbers, units: number): Terms {
  const ratePerUs = (numbers.capacity * units) / (POOL_UNITS * (numbers.windowMs * 1_000))
  const cap = shareBurst(numbers.burst, units)
  const capWhole = Math.floor(cap)
  return {
    ratePerUs,
    capWhole,
    capFraction: cap - capWhole,
    // Half of what a microsecond refills, at most: a token is never given a microsecond early.
    snap: Math.min(SNAP_TOKENS_MAX, ratePerUs / 2),
  }
}

/** Level before the present share's bound, and the instant that it stands for. */
function refill(
  state: BucketState | null,
  circumstances: Circumstances,
): { readonly level: Level; readonly lastUs: number } {
  const { limit, boot, nowUs } = circumstances
  let level: Level
  let fromUs: number
  if (state === null) {
    const whole = Math.floor(limit.idle.tokens)
    level = { whole, fraction: limit.idle.tokens - whole }
    fromUs = limit.idle.atUs
  } else {
    level = state
    fromUs = state.lastUs
  }
  if (fromUs < boot.startUs) {
    level = { whole: 0, fraction: 0 }
    fromUs = boot.startUs
  }
  const lastUs = fromUs
  if (state !== null && state.version !== limit.version) {
    if (limit.previous !== null && limit.previous.version === state.version) {
      const toUs = Math.min(limit.changedAtUs, nowUs)
      level = refillUnder(level, circumstances, limit.previous, { fromUs, toUs })
    }
    // With numbers older than the previous ones, what was refilled before the change is not known: nothing.
    fromUs = Math.max(fromUs, limit.changedAtUs)
  }
  level = refillUnder(level, circumstances, limit, { fromUs, toUs: nowUs })
  return { level, lastUs }
}

/** Refills under one set of numbers, the borrowed part only while it may be used. */
function refillUnder(
  start: Level,
  circumstances: Circumstances,
  numbers: LimitNumbers,
  stretch: { readonly fromUs: number; readonly toUs: number },
): Level {
  let level = start
  let { fromUs } = stretch
  const expUs = circumstances.share?.expUs ?? 0
  if (fromUs < expUs) {
    const toUs = Math.min(expUs, stretch.toUs)
    const units = unitsAt(circumstances, numbers, fromUs)
    level = advance(level, termsOf(numbers, units), toUs - fromUs)
    fromUs = toUs
  }
  if (fromUs < stretch.toUs) {
    const units = unitsAt(circumstances, numbers, fromUs)
    level = advance(level, termsOf(numbers, units), stretch.toUs - fromUs)
  }
  return level
}

function advance(level: Level, terms: Terms, elapsedUs: number): Level {
  return elapsedUs <= 0 ? level : add(level, terms, elapsedUs * terms.ratePerUs)
}

function add(level: Level, terms: Terms, added: number): Level {
  const addedWhole = Math.floor(added)
  let whole = level.whole + addedWhole
  let fraction = level.fraction + (added - addedWhole)
  if (fraction >= 1) {
    whole += 1
    fraction -= 1
  }
  if (1 - fraction <= terms.snap) {
    whole += 1
    fraction = 0
  }
  return clamp({ whole, fraction }, terms)
}

function clamp(level: Level, terms: Terms): Level {
  const { whole, fraction } = level
  if (whole > terms.capWhole || (whole === terms.capWhole && fraction > terms.capFraction)) {
    return { whole: terms.capWhole, fraction: terms.capFraction }
  }
  return { whole, fraction }
}

/** Milliseconds, rounded up, until `tokens` more have come; null when none come. */
function timeToMs(settled: SettledBucket, tokens: number): number | null {
  const { ratePerUs, snap } = settled.terms
  if (tokens <= snap) return 0
  if (ratePerUs === 0) return null
  const { nowUs } = settled.circumstances
  const aheadUs = settled.astray ? 0 : settled.lastUs - nowUs
  return Math.ceil((Math.ceil((tokens - snap) / ratePerUs) + aheadUs) / 1_000)
}

/** A bucket's level as one number of tokens, for buckets that are not stored. */
export function levelOf(limit: RegionLimit, boot: Circumstances['boot'], nowUs: number): number {
  const settled = tokenBucket.settle(null, { limit, share: null, boot, nowUs })
  return settled.remaining + settled.fraction
}
