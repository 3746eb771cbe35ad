import type { Algorithm, RegionLimit } from '../../shared/core/policy.ts'

/** Algorithms whose counters can be leased. */
const LEASED: ReadonlySet<Algorithm> = new Set<Algorithm>(['token_bucket', 'fixed_window'])

const DAY_MS = 86_400_000

/** Why tokens of `limit` are never taken in blocks; null where they are. */
export function unleasable(limit: RegionLimit): 'long_window' | 'off' | 'algorithm' | null {
  if (!LEASED.has(limit.algorithm)) return 'algorithm'
  // Windows of a day and more are held as stock, and what is lost of a lease would be missing for as long.
  if (limit.calendar !== null || limit.windowMs >= DAY_MS) return 'long_window'
  return limit.leases === 'auto' ? null : 'off'
}
