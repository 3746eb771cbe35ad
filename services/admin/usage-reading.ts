import type { Limit, RegionId } from '../../shared/core/policy.ts'
import { usageWindowMs } from '../../shared/core/usage-window.ts'
import { isQuotaError } from '../../shared/errors.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import { readCounts, readHistory } from '../../shared/postgres/usage-history.ts'
import type { Resolution, UsageHistoryReply } from '../../shared/protocol/reading-replies.ts'
import { HOURS_STORED_MS, MINUTES_STORED_MS } from './history/history-writer.ts'
import { MINUTE_MS, MINUTES_KEPT, SECOND_MS, SECONDS_KEPT } from './history/series-book.ts'
import type { LiveView } from './live-view.ts'
import type { PlaneCache } from './plane-cache.ts'
import {
  type Buckets,
  bucketsOfRows,
  bucketsOfSeries,
  historyItems,
  largerOf,
  type Span,
} from './views/usage-history.ts'

const HOUR_MS = 3_600_000

/** Of each resolution: how long a bucket is, how far back anything is kept, and what is shown where nobody says. */
export const SPANS: Readonly<
  Record<Resolution, { readonly slotMs: number; readonly keptMs: number; readonly usualMs: number }>
> = {
  second: { slotMs: SECOND_MS, keptMs: SECONDS_KEPT * SECOND_MS, usualMs: MINUTE_MS },
  minute: { slotMs: MINUTE_MS, keptMs: MINUTES_STORED_MS, usualMs: HOUR_MS },
  hour: { slotMs: HOUR_MS, keptMs: HOURS_STORED_MS, usualMs: 24 * HOUR_MS },
}

export interface HistoryAsk {
  readonly limits: readonly Limit[]
  readonly resolution: Resolution
  /** Null: all keys together. */
  readonly key: string | null
  readonly region: RegionId | undefined
  /** Starts of buckets. */
  readonly fromMs: number
  readonly toMs: number
}

interface Sources {
  readonly db: Db
  readonly live: LiveView
  readonly cache: PlaneCache
}

/**
 * Usage over time. Minutes and hours of a limit come from Postgres, the latest from memory; where Postgres does not
 * answer, memory alone answers and `isPartial` says so. Seconds and hot keys are in memory alone.
 */
export async function readUsageHistory(
  { db, live, cache }: Sources,
  ask: HistoryAsk,
): Promise<{ readonly items: UsageHistoryReply['items']; readonly isPartial: boolean }> {
  const span = { fromMs: ask.fromMs, toMs: ask.toMs, slotMs: SPANS[ask.resolution].slotMs }
  const inMemory = ask.limits.map((limit) => ({
    limit,
    buckets: memoryOf(live, cache.members, limit, ask.key, span),
  }))
  const shown = {
    slotMs: span.slotMs,
    region: ask.region,
    settledMs: Math.min(...cache.members.map((region) => live.heard(region)?.heardAtMs ?? 0)),
  }
  if (ask.resolution === 'second' || ask.key !== null) {
    return { items: [...historyItems(inMemory, shown)], isPartial: false }
  }
  try {
    const stored = await storedOf(db, ask, ask.resolution)
    const both = inMemory.map(({ limit, buckets }) => ({
      limit,
      buckets: largerOf(stored.get(limit.id) ?? new Map(), buckets),
    }))
    return { items: [...historyItems(both, shown)], isPartial: false }
  } catch (err) {
    if (!isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')) throw err
    return { items: [...historyItems(inMemory, shown)], isPartial: true }
  }
}

function memoryOf(
  live: LiveView,
  members: readonly RegionId[],
  { id, usageEpoch }: Limit,
  key: string | null,
  span: Span,
): Buckets {
  const book = key === null ? live.history.limits : live.history.keys
  const keptMs = span.slotMs === SECOND_MS ? SECONDS_KEPT * SECOND_MS : MINUTES_KEPT * MINUTE_MS
  const all = members
    .map((region) => book.get({ limitId: id, usageEpoch, region, key }))
    .filter((series) => series !== null)
  // Nothing older is in memory; a page of a year's hours need not look for its minutes.
  return bucketsOfSeries(all, { ...span, fromMs: Math.max(span.fromMs, span.toMs - 2 * keptMs) })
}

async function storedOf(
  db: Db,
  { limits, fromMs, toMs }: HistoryAsk,
  resolution: 'minute' | 'hour',
): Promise<ReadonlyMap<number, Buckets>> {
  const ids = limits.map(({ id, usageEpoch }) => ({ limitId: id, usageEpoch }))
  const rows = await readHistory(db, { resolution, limits: ids, fromMs, toMs })
  const byLimit = new Map<number, Buckets>()
  for (const { id, usageEpoch, windowMs } of limits) {
    const lengthMs = usageWindowMs(windowMs)
    const own = rows.filter(({ limitId }) => limitId === id)
    // Only a window that began before the span was counted in before it.
    const window = Math.floor(fromMs / lengthMs)
    const isCut = lengthMs > MINUTE_MS && own.some((row) => row.window === window)
    const before = { resolution, limitId: id, usageEpoch, window, beforeMs: fromMs }
    byLimit.set(id, bucketsOfRows(own, isCut ? await readCounts(db, before) : []))
  }
  return byLimit
}
