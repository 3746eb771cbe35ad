/** Counters of a region's Redis, decided by the pure twins of the Lua scripts. */
import type { Circumstances, Settled, Share } from '../../../../shared/core/algorithms/algorithm.ts'
import { allows, mostAtOnce } from '../../../../shared/core/algorithms/algorithm.ts'
import { type AnyAlgorithm, algorithmOf } from '../../../../shared/core/algorithms/registry.ts'
import { hasBurst, type RegionLimit } from '../../../../shared/core/policy.ts'

/** One counter's value. `share` counts only in the incarnation in which it was written. */
export interface Counter {
  /** As its algorithm stored it, under the version of the limit that it names. */
  state: { readonly version: number } | null
  share: Share | null
  incarnation: number
  pinned: boolean
  admitted: number
  denied: number
  /** When the expiry was set last, and when the value goes by itself. */
  expirySetUs: number
  expiresAtUs: number
}

/** A tracked counter stays this much longer, as in `lua/_counters.lua`. */
const TRACKED_KEEP_MS = 600_000

/** A counter is noticed once it has less than this part of its share left. */
const LOW_PART = 0.3

export interface Decided {
  readonly allowed: boolean
  readonly isLow: boolean
}

export interface Engine {
  /** Decides one check and stores what it leaves behind. */
  decide(counter: Counter, circumstances: Circumstances, cost: number): Decided
  /** Puts the counter under another share; false, and nothing changed, where the window is too full. */
  resize(counter: Counter, circumstances: Circumstances, share: Share, shrinks: boolean): boolean
}

export function createCounter(): Counter {
  return {
    state: null,
    share: null,
    incarnation: 0,
    pinned: false,
    admitted: 0,
    denied: 0,
    expirySetUs: 0,
    expiresAtUs: 0,
  }
}

const ENGINES = new Map<string, Engine>()

export function engineOf(limit: RegionLimit): Engine {
  const known = ENGINES.get(limit.algorithm)
  if (known !== undefined) return known
  const engine = engineFor(
    algorithmOf(limit),
    hasBurst(limit.algorithm) ? mustRenewBucket : () => true,
  )
  ENGINES.set(limit.algorithm, engine)
  return engine
}

/** A bucket's expiry is renewed now and then, not with each check. */
function mustRenewBucket(counter: Counter, keepMs: number, nowUs: number): boolean {
  const renewedUs = nowUs - counter.expirySetUs
  return renewedUs < 0 || renewedUs >= Math.max(1, Math.floor(keepMs / 4_000)) * 1e6
}

function engineFor(
  algorithm: AnyAlgorithm,
  mustRenew: (counter: Counter, keepMs: number, nowUs: number) => boolean,
): Engine {
  /** `isAnew`: written whole, with a new expiry; otherwise in place, as long as the old one covers the time. */
  const store = (counter: Counter, settled: Settled, at: Circumstances, isAnew: boolean): void => {
    const { nowUs, limit } = at
    const isInPlace = !isAnew && counter.state?.version === limit.version
    counter.state = algorithm.store(settled) as Counter['state']
    if (counter.pinned) {
      counter.expiresAtUs = Number.POSITIVE_INFINITY
      return
    }
    const keepMs = algorithm.keepMs(settled) + (counter.share === null ? 0 : TRACKED_KEEP_MS)
    if (isInPlace && !mustRenew(counter, keepMs, nowUs)) return
    counter.expirySetUs = Math.floor(nowUs / 1e6) * 1e6
    counter.expiresAtUs = nowUs + keepMs * 1_000
  }
  return {
    decide(counter, circumstances, cost) {
      const settled = algorithm.settle(counter.state, circumstances)
      if (allows(settled, circumstances.limit, cost)) {
        const taken = algorithm.take(settled, cost)
        if (counter.share !== null) counter.admitted += cost
        store(counter, taken, circumstances, false)
        return { allowed: true, isLow: taken.remaining < LOW_PART * taken.most }
      }
      if (cost > mostAtOnce(circumstances.limit)) return { allowed: false, isLow: false }
      if (counter.share !== null) counter.denied += cost
      if (settled.astray) store(counter, algorithm.heal(settled), circumstances, false)
      return { allowed: false, isLow: true }
    },
    resize(counter, circumstances, share, shrinks) {
      const settled = algorithm.settle(counter.state, circumstances)
      const resized = algorithm.resize(settled, share, shrinks)
      if (resized === null) return false
      counter.share = share
      store(counter, resized, circumstances, true)
      return true
    },
  }
}
