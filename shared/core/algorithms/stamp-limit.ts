import type { LimitNumbers, RegionLimit, RegionLimitSpec } from '../policy.ts'
import { shareBurst } from '../units.ts'
import type { Boot } from './algorithm.ts'
import { keepMsOf, levelOf, termsOf } from './token-bucket.ts'

/** When and as which version a region's limits change. */
export interface LimitChange {
  readonly version: number
  readonly nowUs: number
  readonly boot: Boot
}

/**
 * Adds to `spec` what lets live counters settle across its change from `before`.
 *
 * Unchanged numbers keep their version, so that counters do not notice. Only one earlier set of numbers is
 * kept: a counter that slept through two changes is refilled from the second on, never too much. A changed
 * algorithm or usage epoch has fresh counters and therefore no past.
 */
export function stampLimit(
  known: RegionLimit | undefined,
  wanted: RegionLimitSpec,
  change: LimitChange,
): RegionLimit {
  const before = known === undefined ? undefined : sinceBoot(known, change.boot)
  const home = change.boot.recovering ? 0 : wanted.home
  const spec = { ...wanted, home }
  if (before === undefined || !continues(before, spec)) return fresh(spec, change.version)
  if (sameNumbers(before, spec)) {
    const { version, previous, changedAtUs, idle } = before
    return { ...spec, version, previous, changedAtUs, idle }
  }
  const { capacity, windowMs, burst } = before
  return {
    ...spec,
    version: change.version,
    previous: { version: before.version, capacity, windowMs, burst, home: before.home },
    changedAtUs: change.nowUs,
    idle: idleAfter(before, { ...spec, version: change.version }, change),
  }
}

/**
 * A limit that this region had not: full since long ago, so that only a later boot makes its buckets begin
 * empty. That it is new to the plane cannot be told from this store having lost it, and in the latter case
 * full buckets would admit twice.
 */
function fresh(spec: RegionLimitSpec, version: number): RegionLimit {
  return { ...spec, version, previous: null, changedAtUs: 0, idle: idleForever(spec) }
}

/**
 * A boot since the last change ends what that change allowed to unstored buckets: they may have been used, and lost.
 * As of a limit that was always so, they begin empty at the boot.
 */
function sinceBoot(limit: RegionLimit, boot: Boot): RegionLimit {
  return boot.startUs >= limit.changedAtUs ? { ...limit, idle: idleForever(limit) } : limit
}

function idleForever(spec: RegionLimitSpec): RegionLimit['idle'] {
  return { tokens: shareBurst(spec.burst, spec.home), atUs: 0 }
}

/** A tracked state is kept ten minutes longer (`lua/_counters.lua`), and Redis expires keys by whole milliseconds. */
const KEPT_LONGER_US = 600_001_000

/** An expiry is renewed once a quarter of its time or a whole second has passed, whichever comes later. */
const RENEWED_LATE_US = 1_000_000

/**
 * Level of a bucket without stored state just after the change.
 *
 * Where the new numbers take longer to fill a bucket than the old ones, a stored state may expire before its
 * bucket is full. It was kept for a while, so it holds at least what that time refills now; buckets are taken to hold
 * no more until all such states are gone. States from before an earlier change may have been kept for less still: the
 * shortest time counts until they are gone too.
 */
function idleAfter(
  before: RegionLimit,
  after: RegionLimitSpec & { readonly version: number },
  { nowUs, boot }: LimitChange,
): RegionLimit['idle'] {
  const full = shareBurst(after.burst, after.home)
  const tokens = Math.min(levelOf(before, boot, nowUs), full)
  const held = heldAfter(before, nowUs)
  const heldTokens = termsOf(after, after.home).ratePerUs * held.us
  const atUs = Math.max(nowUs, before.idle.atUs)
  // An emptied bucket is full again when its state expires: then so is any other.
  if (heldTokens >= full) return { tokens, atUs, held }
  return { tokens: Math.min(tokens, heldTokens), atUs: atUs + held.us, held }
}

/** Shortest time that any state still to be found was kept for, and until when such states may be found. */
function heldAfter(before: RegionLimit, nowUs: number): { us: number; untilUs: number } {
  const keepUs = keepMsOf(before) * 1_000
  const us = Math.min(0.75 * keepUs, keepUs - RENEWED_LATE_US)
  const untilUs = nowUs + keptLongestUs(before)
  const { held } = before.idle
  if (held === undefined || nowUs >= held.untilUs) return { us, untilUs }
  return { us: Math.min(us, held.us), untilUs: Math.max(untilUs, held.untilUs) }
}

/** How long after its last write a state of these numbers may still be found. */
export function keptLongestUs(numbers: LimitNumbers): number {
  return keepMsOf(numbers) * 1_000 + KEPT_LONGER_US
}

function continues(before: RegionLimit, spec: RegionLimitSpec): boolean {
  return before.algorithm === spec.algorithm && before.usageEpoch === spec.usageEpoch
}

function sameNumbers(before: RegionLimit, spec: RegionLimitSpec): boolean {
  return (
    before.capacity === spec.capacity &&
    before.windowMs === spec.windowMs &&
    before.burst === spec.burst &&
    before.home === spec.home
  )
}
