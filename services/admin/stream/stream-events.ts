/** What a stream tells, as of one instant. Pure reading of what admin has in memory. */

import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { RegionId } from '../../../shared/core/policy.ts'
import type { SharesReply } from '../../../shared/protocol/admin-replies.ts'
import type { StreamLimitUsage } from '../../../shared/protocol/stream-events.ts'
import type { FactsBook } from '../facts-book.ts'
import { SECOND_MS, type Series } from '../history/series-book.ts'
import type { LiveView } from '../live-view.ts'
import type { PlaneCache } from '../plane-cache.ts'
import { pairLags, regionStates } from '../views/lags.ts'
import { agesOf, sharesOf } from '../views/shares.ts'
import { bucketsOfSeries, historyItems } from '../views/usage-history.ts'

/** Limits in one event: the busiest. A page shows fewer; who needs others asks for them. */
const LIMITS_MAX = 200

/** Hot keys of each limit in one event. */
const KEYS_MAX = 20

/** Pairs of regions in one event: all of sixteen regions; of more, those furthest behind. */
const PAIRS_MAX = 240

/** Behind all others in the order of lags. */
const UNHEARD = Number.MAX_SAFE_INTEGER

/** Seconds told again each time: a region that reports late changes them. */
const SECONDS_TOLD = 4

export interface StreamSources {
  readonly cache: PlaneCache
  readonly live: LiveView
  readonly facts: FactsBook
  readonly isBusUp: () => boolean
  readonly isDatabaseUp: () => boolean
}

export type LimitShares = SharesReply['limits'][number]

export function regionsEvent({ cache, live, facts, ...sources }: StreamSources, nowMs: number) {
  const query = { members: cache.members, live, facts, nowMs }
  const pairs = pairLags(query).sort((a, b) => (b.lagMs ?? UNHEARD) - (a.lagMs ?? UNHEARD))
  return {
    at: new Date(nowMs).toISOString(),
    admin: {
      bus: sources.isBusUp() ? 'up' : 'down',
      database: sources.isDatabaseUp() ? 'up' : 'down',
    },
    regions: regionStates(query),
    pairs: pairs.slice(0, PAIRS_MAX),
    pairsLeftOut: Math.max(0, pairs.length - PAIRS_MAX),
  } as const
}

/** Shares of the limits that have hot keys; the others have what their policy says. */
export function hotShares({ cache, live }: StreamSources, nowMs: number): readonly LimitShares[] {
  const hot = hotLimits(cache.members, live)
  const policies = [...cache.policies].filter(({ limits }) => limits.some(({ id }) => hot.has(id)))
  const query = { policies, members: cache.members, live, nowMs, keysMax: KEYS_MAX }
  return sharesOf(query)
    .filter(({ keys }) => keys.length > 0)
    .sort((one, other) => demandOf(other) - demandOf(one))
    .slice(0, LIMITS_MAX)
}

/** The latest seconds of the limits that have any, the busiest first. */
export function recentUsage({ cache, live }: StreamSources, nowMs: number): StreamLimitUsage[] {
  const toMs = (Math.floor(nowMs / SECOND_MS) + 1) * SECOND_MS
  const span = { fromMs: toMs - SECONDS_TOLD * SECOND_MS, toMs, slotMs: SECOND_MS }
  const fresh = [...live.history.limits.all()].filter(({ touchedMs }) => touchedMs >= span.fromMs)
  const byLimit = new Map<number, Series[]>()
  for (const series of fresh) {
    byLimit.set(series.limitId, [...(byLimit.get(series.limitId) ?? []), series])
  }
  const heardMs = cache.members.map((region) => live.heard(region)?.heardAtMs ?? 0)
  const shown = { slotMs: SECOND_MS, region: undefined, settledMs: Math.min(...heardMs) }
  const all = [...cache.policies].flatMap((policy) =>
    policy.limits.flatMap((limit) => {
      const series = byLimit.get(limit.id)
      if (series === undefined) return []
      const buckets = bucketsOfSeries(series, span)
      const seconds = [...historyItems([{ limit, buckets }], shown)].map(
        ({ startsAt, isRunning, total, regions }) => ({ startsAt, isRunning, total, regions }),
      )
      const { domain, name } = policy
      return [{ domain, policy: name, limit: limit.name, limitId: limit.id, seconds }]
    }),
  )
  return all.sort((one, other) => busyness(other) - busyness(one)).slice(0, LIMITS_MAX)
}

/** How fresh each region's figures are. */
export function freshness({ cache, live }: StreamSources, nowMs: number) {
  return agesOf({ members: cache.members, live, nowMs })
}

function hotLimits(members: readonly RegionId[], live: LiveView): ReadonlySet<number> {
  const ids = new Set<number>()
  for (const region of members) {
    for (const { id } of live.heard(region)?.record.rows ?? []) {
      const parsed = parseCounterId(id)
      if (parsed !== null) ids.add(parsed.limitId)
    }
  }
  return ids
}

function demandOf({ keys }: LimitShares): number {
  return keys.flatMap(({ regions }) => regions).reduce((all, one) => all + one.demandPerSecond, 0)
}

function busyness({ seconds }: StreamLimitUsage): number {
  return seconds.reduce((all, { total }) => all + total.admitted + total.denied, 0)
}
