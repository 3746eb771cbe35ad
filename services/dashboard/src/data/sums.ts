import type { UsageReply } from '../../../../shared/protocol/admin-replies.ts'
import type { LagsReply } from '../../../../shared/protocol/reading-replies.ts'
import type { KeyShares, LimitShares, LiveState, Rate } from './live-state.ts'

/** Units of a whole limit: the pool that shares are parts of. */
const POOL_UNITS = 1_000_000

/**
 * Regions speak each second, and each second that is told on: who has not been heard for longer than both and half a
 * second of grace is cut off from here, or its daemon is down.
 */
const SILENT_AFTER_MS = 2_500

/** An event that is out of date tells nothing of the time since: then the page is stale, and no region is cut. */
const SINCE_EVENT_MAX_MS = 1_200

/**
 * The key whose regions' shares come to most of its limit; null while no key is hot. Keys of a region that is cut off
 * are left out: what it has now is not known here, and its last word would be added to what others have taken back.
 */
export function largestShareSum(
  limits: Iterable<LimitShares>,
  silent: readonly string[] = [],
): {
  readonly limit: LimitShares
  readonly key: KeyShares
  readonly units: number
  readonly ratio: number
} | null {
  let largest: ReturnType<typeof largestShareSum> = null
  for (const limit of limits) {
    for (const key of limit.keys) {
      if (key.regions.some(({ region }) => silent.includes(region))) continue
      const units = key.regions.reduce((sum, one) => sum + one.share.units, 0)
      const ratio = units / POOL_UNITS
      if (largest === null || ratio > largest.ratio) largest = { limit, key, units, ratio }
    }
  }
  return largest
}

/** What the daemons find when they audit all regions, the worst of them; null while none was heard. */
export function auditOf(regions: LagsReply['regions']): {
  readonly overAdmitted: number
  readonly alarms: number
  readonly by: number
} | null {
  const audits = regions.flatMap(({ audit }) => audit ?? [])
  if (audits.length === 0) return null
  return {
    overAdmitted: Math.max(...audits.map((one) => one.overAdmitted)),
    alarms: Math.max(...audits.map((one) => one.alarms)),
    by: audits.length,
  }
}

/** How long ago a region was heard, as of `nowMs`; null for one that never was. */
export function heardAgeMs(
  region: Pick<LagsReply['regions'][number], 'ageMs'>,
  { atMs }: Pick<LiveState, 'atMs'>,
  nowMs: number,
): number | null {
  if (region.ageMs === null) return null
  return region.ageMs + Math.min(SINCE_EVENT_MAX_MS, Math.max(0, nowMs - (atMs ?? nowMs)))
}

/** How long ago each region was heard, as of `nowMs`. */
export function heardAges(live: LiveState, nowMs: number): ReadonlyMap<string, number | null> {
  const regions = live.regions?.regions ?? []
  return new Map(regions.map((one) => [one.region, heardAgeMs(one, live, nowMs)]))
}

/** The regions that are cut off, of those ages. */
export function silentOf(ages: ReadonlyMap<string, number | null>): readonly string[] {
  return [...ages].filter(([, ageMs]) => isSilent(ageMs)).map(([region]) => region)
}

export function isSilent(ageMs: number | null): boolean {
  return ageMs === null || ageMs > SILENT_AFTER_MS
}

/** Tokens a second by region, of the newest window of each limit that has ended. */
export function ratesByRegion(usage: Pick<UsageReply, 'limits'>): ReadonlyMap<string, Rate> {
  const rates = new Map<string, Rate>()
  for (const limit of usage.limits) {
    // Windows beyond a minute say little of the present second.
    const window = limit.windows.find((one) => one.isComplete) ?? limit.windows[1]
    if (window === undefined || limit.usageWindowMs > 60_000) continue
    for (const { region, admitted, denied } of window.regions) {
      const rate = rates.get(region) ?? { admitted: 0, denied: 0 }
      rates.set(region, {
        admitted: rate.admitted + (1_000 * admitted) / limit.usageWindowMs,
        denied: rate.denied + (1_000 * denied) / limit.usageWindowMs,
      })
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
