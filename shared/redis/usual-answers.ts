/**
 * What the numbers of a reply of `lua/check-usual.lua` mean.
 *
 * The script says how much is left; the times that follow from it are worked out here, by the arithmetic of
 * shared/core/algorithms, since Redis has one thread for all enforcers.
 */

import { termsOf } from '../core/algorithms/token-bucket.ts'
import { assert } from '../core/assert.ts'
import type { RegionLimit } from '../core/policy.ts'
import type { LimitDecision } from '../core/ports.ts'
import { shareTokens } from '../core/units.ts'
import { bytesOf } from './scripts.ts'

const MICROS = 1_000
const DOUBLE_BYTES = 8
const NUMBERS_PER_CHECK = 3
const CODES = { denied: -1, moved: -2 }

/** Doubles of a reply, whose bytes need not be aligned. Used again for each, since all of it is read at once. */
let doubles = new Float64Array(512)
let doubleBytes = new Uint8Array(doubles.buffer)

/** The numbers of a reply for `checks` checks: the instant, then three for each. Valid until the next call. */
export function readReply(reply: unknown, checks: number): Float64Array {
  const bytes = bytesOf(reply)
  const length = 1 + checks * NUMBERS_PER_CHECK
  assert(bytes.length === length * DOUBLE_BYTES, 'a reply has three numbers for each check')
  if (length > doubles.length) {
    doubles = new Float64Array(2 * length)
    doubleBytes = new Uint8Array(doubles.buffer)
  }
  doubleBytes.set(bytes)
  return doubles
}

/** Says what a check of one limit is told. */
export interface Teller {
  /** The decision at `place` of the reply on a check of `cost` tokens; null where the check was moved. */
  tell(reply: Float64Array, place: number, cost: number): LimitDecision | null
}

const tellers = new WeakMap<RegionLimit, Teller>()

/** The teller of `limit`, which is made once for each change of it. */
export function tellerOf(limit: RegionLimit): Teller {
  const known = tellers.get(limit)
  if (known !== undefined) return known
  const teller = limit.algorithm === 'token_bucket' ? bucketTeller(limit) : windowTeller(limit)
  tellers.set(limit, teller)
  return teller
}

/** Where the numbers of the check at `index` begin. */
export function placeOf(index: number): number {
  return 1 + index * NUMBERS_PER_CHECK
}

function bucketTeller(limit: RegionLimit): Teller {
  const { ratePerUs, capWhole, capFraction, snap } = termsOf(limit, limit.home)
  const timeToMs = (tokens: number): number =>
    tokens <= snap ? 0 : Math.ceil(Math.ceil((tokens - snap) / ratePerUs) / MICROS)
  return {
    tell(reply, place, cost) {
      const remaining = reply[place] ?? 0
      const fraction = reply[place + 1] ?? 0
      const code = reply[place + 2] ?? 0
      if (code === CODES.moved) return null
      const resetMs = timeToMs(capWhole - remaining + (capFraction - fraction))
      if (code !== CODES.denied) return allowed(remaining, resetMs)
      const retryAfterMs =
        Math.max(cost, 1) > capWhole ? null : timeToMs(Math.max(cost, 1) - remaining - fraction)
      return { allowed: false, reason: 'limit', remaining, resetMs, retryAfterMs }
    },
  }
}

function windowTeller(limit: RegionLimit): Teller {
  const windowUs = limit.windowMs * MICROS
  const most = shareTokens(limit.capacity, limit.home)
  return {
    tell(reply, place, cost) {
      const code = reply[place + 2] ?? 0
      if (code === CODES.moved) return null
      const nowUs = reply[0] ?? 0
      const resetMs = Math.ceil(((reply[place] ?? 0) + windowUs - nowUs) / MICROS)
      const remaining = Math.max(0, most - (reply[place + 1] ?? 0))
      if (code !== CODES.denied) return allowed(remaining, resetMs)
      const retryAfterMs = Math.max(cost, 1) > most ? null : resetMs
      return { allowed: false, reason: 'limit', remaining, resetMs, retryAfterMs }
    },
  }
}

function allowed(remaining: number, resetMs: number): LimitDecision {
  return { allowed: true, reason: null, remaining, resetMs, retryAfterMs: null }
}
