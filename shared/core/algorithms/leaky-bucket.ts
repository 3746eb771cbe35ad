/**
 * Leaky bucket as a meter (GCRA): a token is due each window / capacity, and up to the burst may come early.
 *
 * Decides as a token bucket does, and its state has the same shape. But what was taken is counted against one instant
 * for as long as the bucket is not full again, so that nothing is ever rounded twice: the hundredth token is due exactly
 * a hundred intervals after the first. GCRA's theoretical arrival time is that instant plus what the bucket lacks
 * divided by the rate; kept as an instant of its own it would be coarser than a token where many come in a
 * microsecond, and would be worth other tokens after a change of the rate.
 */
import { assert } from '../assert.ts'
import type { Algorithm } from './algorithm.ts'
import { type BucketState, type SettledBucket, tokenBucket } from './token-bucket.ts'

export interface SettledMeter extends SettledBucket {
  /** What is stored: the level at an instant of the past, less all that was taken since; `whole` may be negative. */
  readonly anchor: BucketState
}

/** A level is counted anew once it refilled this much: the rounding of one product stays below a billionth. */
const REFILL_MAX = 2 ** 20

export const leakyBucket: Algorithm<BucketState, SettledMeter> = {
  settle(state, circumstances) {
    const settled = tokenBucket.settle(state, circumstances)
    return state !== null && isUnbroken(state, settled)
      ? { ...settled, anchor: state }
      : anchored(settled)
  },

  take(settled, cost) {
    assert(cost <= settled.remaining, 'a bucket is never overdrawn')
    const { anchor, remaining } = settled
    return {
      ...settled,
      remaining: remaining - cost,
      anchor: { ...anchor, whole: anchor.whole - cost },
    }
  },

  giveBack(settled, given) {
    const credited = tokenBucket.giveBack(settled, given)
    return credited === null ? null : anchored(credited)
  },

  resize(settled, share, shrinks) {
    const resized = tokenBucket.resize(settled, share, shrinks)
    return resized === null ? null : anchored(resized)
  },

  heal: (settled) => anchored(tokenBucket.heal(settled)),
  resetMs: (settled) => tokenBucket.resetMs(settled),
  waitMs: (settled, cost) => tokenBucket.waitMs(settled, cost),
  store: ({ anchor }) => anchor,
  keepMs: (settled) => tokenBucket.keepMs(settled),
}

/** Whether one rate has held since the state's instant and the bucket was not full meanwhile. */
function isUnbroken(state: BucketState, settled: SettledBucket): boolean {
  const { circumstances, terms, remaining, fraction } = settled
  const { limit, share, boot, nowUs } = circumstances
  const expUs = share?.expUs ?? 0
  return (
    !settled.astray &&
    state.version === limit.version &&
    state.lastUs <= nowUs &&
    state.lastUs >= boot.startUs &&
    (state.lastUs >= expUs || nowUs < expUs) &&
    (remaining < terms.capWhole || fraction < terms.capFraction) &&
    (nowUs - state.lastUs) * terms.ratePerUs < REFILL_MAX
  )
}

function anchored(settled: SettledBucket): SettledMeter {
  return { ...settled, anchor: tokenBucket.store(settled) }
}
