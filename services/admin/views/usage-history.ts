import type { Limit, RegionId } from '../../../shared/core/policy.ts'
import { usageWindowMs } from '../../../shared/core/usage-window.ts'
import type { StoredBucket } from '../../../shared/postgres/usage-history.ts'
import type { UsageHistoryReply } from '../../../shared/protocol/reading-replies.ts'
import { type Amounts, NO_AMOUNTS, plus } from '../history/amount-ring.ts'
import type { Series } from '../history/series-book.ts'
import { wholeAmounts } from './usage-top.ts'

/** Amounts of one limit by bucket start and region. */
export type Buckets = ReadonlyMap<number, ReadonlyMap<RegionId, Amounts>>

type HistoryItem = UsageHistoryReply['items'][number]

export interface Span {
  readonly fromMs: number
  readonly toMs: number
  readonly slotMs: number
}

/** What series hold in memory of a span: seconds, or minutes, which also make up hours. */
export function bucketsOfSeries(all: Iterable<Series>, span: Span): Buckets {
  const buckets = new Map<number, Map<RegionId, Amounts>>()
  for (const series of all) {
    const ring = series.seconds.slotMs === span.slotMs ? series.seconds : series.minutes
    for (let atMs = span.fromMs; atMs < span.toMs; atMs += ring.slotMs) {
      const amounts = ring.at(atMs / ring.slotMs)
      const startMs = Math.floor(atMs / span.slotMs) * span.slotMs
      if (amounts !== null) addTo(buckets, startMs, series.region, amounts)
    }
  }
  return buckets
}

/**
 * What rows in Postgres hold of one limit. A row with a window tells a count until its end, so its amounts are what it
 * is above the row before of the same window; `earlier` has what was counted before the span.
 */
export function bucketsOfRows(
  rows: readonly StoredBucket[],
  earlier: readonly StoredBucket[],
): Buckets {
  const buckets = new Map<number, Map<RegionId, Amounts>>()
  const counted = new Map<string, Amounts>(earlier.map((row) => [windowName(row), row]))
  for (const row of rows) {
    if (row.window === null) {
      addTo(buckets, row.startsMs, row.region, row)
      continue
    }
    const before = counted.get(windowName(row)) ?? NO_AMOUNTS
    counted.set(windowName(row), row)
    addTo(buckets, row.startsMs, row.region, {
      admitted: Math.max(0, row.admitted - before.admitted),
      denied: Math.max(0, row.denied - before.denied),
      returned: Math.max(0, row.returned - before.returned),
      unmet: row.unmet,
    })
  }
  return buckets
}

/** Of two views of the same figures, which only grow, the larger of each. */
export function largerOf(one: Buckets, other: Buckets): Buckets {
  const larger = new Map<number, Map<RegionId, Amounts>>()
  for (const [startMs, byRegion] of [...one, ...other]) {
    const known = larger.get(startMs) ?? new Map<RegionId, Amounts>()
    for (const [region, amounts] of byRegion) {
      const held = known.get(region) ?? NO_AMOUNTS
      known.set(region, {
        admitted: Math.max(held.admitted, amounts.admitted),
        denied: Math.max(held.denied, amounts.denied),
        returned: Math.max(held.returned, amounts.returned),
        unmet: Math.max(held.unmet, amounts.unmet),
      })
    }
    larger.set(startMs, known)
  }
  return larger
}

/** Buckets as they are shown, by time and then by limit as the policy has them. */
export function historyItems(
  limits: readonly { readonly limit: Limit; readonly buckets: Buckets }[],
  {
    slotMs,
    settledMs,
    region,
  }: Pick<Span, 'slotMs'> & {
    /** Every region has spoken since. */
    readonly settledMs: number
    readonly region: RegionId | undefined
  },
): readonly HistoryItem[] {
  const items = limits.flatMap(({ limit, buckets }) =>
    [...buckets].flatMap(([startMs, byRegion]) => {
      const regions = [...byRegion].filter(([name]) => region === undefined || name === region)
      if (regions.length === 0) return []
      const endMs = startMs + Math.max(slotMs, Math.min(usageWindowMs(limit.windowMs), 60_000))
      return [
        {
          startMs,
          item: {
            startsAt: new Date(startMs).toISOString(),
            limit: limit.name,
            limitId: limit.id,
            isRunning: endMs > settledMs,
            total: wholeAmounts(regions.map(([, amounts]) => amounts).reduce(plus, NO_AMOUNTS)),
            regions: regions
              .map(([name, amounts]) => ({ region: name, ...wholeAmounts(amounts) }))
              .sort((a, b) => (a.region < b.region ? -1 : 1)),
          },
        },
      ]
    }),
  )
  return items.sort((a, b) => a.startMs - b.startMs).map(({ item }) => item)
}

function addTo(
  buckets: Map<number, Map<RegionId, Amounts>>,
  startMs: number,
  region: RegionId,
  amounts: Amounts,
): void {
  const byRegion = buckets.get(startMs) ?? new Map<RegionId, Amounts>()
  byRegion.set(region, plus(byRegion.get(region) ?? NO_AMOUNTS, amounts))
  buckets.set(startMs, byRegion)
}

function windowName({ region, window }: StoredBucket): string {
  return `${region} ${window}`
}
