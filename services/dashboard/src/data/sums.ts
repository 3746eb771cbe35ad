import type { SharesReply, UsageReply } from '../../../../shared/protocol/admin-replies.ts'

/** Units of a whole limit: the pool that shares are parts of. */
const POOL_UNITS = 1_000_000

/** The key whose regions' shares come to most of its limit; null while no key is hot. */
export function largestShareSum(
  shares: SharesReply | null,
): { readonly name: string; readonly ratio: number; readonly overTokens: number } | null {
  let largest: { name: string; ratio: number; overTokens: number } | null = null
  for (const limit of shares?.limits ?? []) {
    for (const key of limit.keys) {
      const units = key.regions.reduce((sum, one) => sum + one.share.units, 0)
      const ratio = units / POOL_UNITS
      if (largest !== null && ratio <= largest.ratio) continue
      const overTokens = (Math.max(0, units - POOL_UNITS) * limit.capacity) / POOL_UNITS
      largest = { name: `${limit.policy} ${key.key}`, ratio, overTokens }
    }
  }
  return largest
}

/** Tokens a second by region, of the newest window of each limit that has ended. */
export function ratesByRegion(
  usage: UsageReply | null,
): ReadonlyMap<string, { readonly admitted: number; readonly denied: number }> {
  const rates = new Map<string, { admitted: number; denied: number }>()
  for (const limit of usage?.limits ?? []) {
    // Windows beyond a minute say little of the present second.
    const window = limit.windows.find((one) => one.isComplete) ?? limit.windows[1]
    if (window === undefined || limit.usageWindowMs > 60_000) continue
    for (const { region, admitted, denied } of window.regions) {
      const rate = rates.get(region) ?? { admitted: 0, denied: 0 }
      rate.admitted += (1_000 * admitted) / limit.usageWindowMs
      rate.denied += (1_000 * denied) / limit.usageWindowMs
      rates.set(region, rate)
    }
  }
  return rates
}

export interface SharePoint {
  readonly atS: number
  readonly tokens: ReadonlyMap<string, number>
}

/** Points kept of a split that is watched: five minutes of seconds. */
const POINTS_MAX = 300

/** The shares of a key with one more point, oldest first. */
export function withPoint(points: readonly SharePoint[], point: SharePoint): readonly SharePoint[] {
  const last = points.at(-1)
  if (last !== undefined && last.atS >= point.atS) return points
  return [...points.slice(-(POINTS_MAX - 1)), point]
}
