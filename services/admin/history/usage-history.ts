/**
 * Usage by second and minute, in memory of a bounded size, and what is to be written of it.
 *
 * Everything is worked out of figures that only grow (a window's counts, a tracked key's counts), so a repeated, late
 * or reordered record adds nothing twice, and what a lost one would have told comes with the next. What is written
 * is a whole bucket each time and merged by the larger figure: two admins that write the same bucket, or one that
 * writes it again after a restart, end in the same total.
 *
 * A window no longer than a minute belongs whole to the minute that it starts in; a restarted admin is told of all
 * windows of the last minute again, so no count is lost. Of longer windows the count so far is written for each
 * minute, and read as the differences between minutes.
 */
import { parseCounterId, wholeName } from '../../../shared/core/counter-id.ts'
import { partTokens } from '../../../shared/core/counter-parts.ts'
import type { RecordRow, RegionRecord, UsageRow } from '../../../shared/core/ledger/types.ts'
import type { Limit, RegionId } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import {
  type UsageCount,
  type UsageTable,
  usageOf,
} from '../../../shared/core/usage/usage-table.ts'
import { usageWindowMs } from '../../../shared/core/usage-window.ts'
import { type Amounts, NO_AMOUNTS } from './amount-ring.ts'
import { PendingBuckets } from './pending-buckets.ts'
import { MINUTE_MS, SECOND_MS, type Series, SeriesBook, type SeriesOf } from './series-book.ts'

/** Limits in regions that have a history in memory: the busiest. 30 MB at most. */
const LIMIT_SERIES_MAX = 2_000

/** Hot keys in regions that have a history: those that admit, deny and lack most. 30 MB at most. */
const KEY_SERIES_MAX = 2_000

/** A key's counts are told every five seconds; they are taken to have grown evenly since, but not for longer. */
const SPREAD_MS = 5_000

/** After a longer silence nobody knows how long a region was short. */
const UNMET_SPAN_MS = 5_000

const NOTHING: UsageCount = { admitted: 0, denied: 0, returned: 0 }

/** A record as it was taken in: what was known before it, and what is known with it. */
export interface Heard {
  readonly record: RegionRecord
  readonly before: UsageTable
  readonly after: UsageTable
  readonly limits: ReadonlyMap<number, Limit>
  readonly nowMs: number
}

/** What the last record of a region said of its hot keys. */
interface Past {
  readonly incarnation: number
  readonly atMs: number
  /** Since when each record of the region was heard: windows that began later were followed from their start. */
  readonly sinceMs: number
  readonly rows: ReadonlyMap<string, { readonly row: RecordRow; readonly countedMs: number }>
}

export class UsageHistory {
  readonly limits = new SeriesBook(LIMIT_SERIES_MAX)
  readonly keys = new SeriesBook(KEY_SERIES_MAX)
  readonly pending = new PendingBuckets()
  readonly #past = new Map<RegionId, Past>()

  /** Takes in a record that was just merged into the usage table. */
  take(heard: Heard): void {
    const { record, nowMs } = heard
    const past = this.#past.get(record.from)
    const sinceMs = past?.sinceMs ?? nowMs
    for (const row of record.usage) this.#takeWindow(heard, row, sinceMs)
    const isContinued = past?.incarnation === record.mark.incarnation
    const rows = new Map<string, { row: RecordRow; countedMs: number }>()
    for (const row of record.rows) {
      const old = isContinued ? past?.rows.get(row.id) : undefined
      const isCounted = old === undefined || !hasSameCounts(old.row, row)
      rows.set(row.id, { row, countedMs: isCounted ? nowMs : old.countedMs })
      this.#takeKey(heard, row, { old, past: isContinued ? past : undefined })
    }
    const { incarnation } = record.mark
    this.#past.set(record.from, { incarnation, atMs: nowMs, sinceMs, rows })
  }

  /** Keeps to the limits and regions that there are. */
  prune(limits: ReadonlyMap<number, Limit>, members: ReadonlySet<RegionId>, nowMs: number): void {
    const isKnown = ({ limitId, usageEpoch, region }: SeriesOf): boolean =>
      limits.get(limitId)?.usageEpoch === usageEpoch && members.has(region)
    this.limits.prune(isKnown, nowMs)
    this.keys.prune(isKnown, nowMs)
    for (const region of this.#past.keys()) if (!members.has(region)) this.#past.delete(region)
  }

  #takeWindow({ record, before, after, limits, nowMs }: Heard, row: UsageRow, sinceMs: number) {
    const limit = limits.get(row.limitId)
    if (limit === undefined) return
    const was = usageOf(before, row).byRegion.get(record.from)
    const is = usageOf(after, row).byRegion.get(record.from)
    if (is === undefined || (was !== undefined && isSame(was, is))) return
    const lengthMs = usageWindowMs(limit.windowMs)
    const startMs = row.window * lengthMs
    const isLong = lengthMs > MINUTE_MS
    // A long window that was under way when this admin began to listen: how it came to its count is not known.
    const isUnseen = isLong && was === undefined && startMs < sinceMs
    const more = { ...minus(is, isUnseen ? is : (was ?? NOTHING)), unmet: 0 }
    const atMs = Math.min(Math.max(nowMs, startMs), startMs + lengthMs - 1)
    const of = { ...idOf(limit), region: record.from, key: null }
    const series = this.limits.admit(of, more, nowMs)
    series?.seconds.add(atMs, more)
    const minuteMs = isLong ? atMs : startMs
    series?.minutes.add(minuteMs, more)
    const minute = Math.floor(minuteMs / MINUTE_MS)
    const bucket = series?.minutes.at(minute) ?? more
    if (isLong) this.pending.put(of, minute, { window: row.window, ...is, unmet: 0 })
    else this.pending.put(of, minute, { window: null, ...bucket })
  }

  #takeKey(
    { record, limits, nowMs }: Heard,
    row: RecordRow,
    {
      old,
      past,
    }: { old: { row: RecordRow; countedMs: number } | undefined; past: Past | undefined },
  ): void {
    if (old !== undefined && old.row === row && !row.hungry) return
    const id = parseCounterId(row.id)
    const limit = id === null ? undefined : limits.get(id.limitId)
    if (id === null || limit === undefined || limit.usageEpoch !== id.usageEpoch) return
    // The first record that this admin hears of a region tells of counts, not of when they were counted.
    const counts = past === undefined ? NOTHING : grownBy(row, old?.row)
    const spanMs = past === undefined ? 0 : Math.min(nowMs - past.atMs, UNMET_SPAN_MS)
    const amounts = { ...counts, unmet: (unmetPerSecond(row, limit) * spanMs) / 1_000 }
    if (amounts.admitted + amounts.denied + amounts.returned + amounts.unmet === 0) return
    const of = { ...idOf(limit), region: record.from, key: wholeName(id.name) }
    const series = this.keys.admit(of, amounts, nowMs)
    const sinceMs = old?.countedMs ?? past?.atMs ?? nowMs
    if (series !== null) addSpread(series, amounts, Math.max(sinceMs, nowMs - SPREAD_MS), nowMs)
    if (amounts.unmet > 0) this.#addUnmet({ ...of, key: null }, amounts.unmet, nowMs)
  }

  /** What a key lacked, its limit lacked. */
  #addUnmet(of: SeriesOf, unmet: number, nowMs: number): void {
    const more = { ...NO_AMOUNTS, unmet }
    const series = this.limits.admit(of, more, nowMs)
    series?.seconds.add(nowMs, more)
    series?.minutes.add(nowMs, more)
    const minute = Math.floor(nowMs / MINUTE_MS)
    const bucket = series?.minutes.at(minute)
    if (bucket !== null && bucket !== undefined) this.pending.raiseUnmet(of, minute, bucket.unmet)
  }
}

/** Tokens a second that a region was asked for beyond its share, of a key that it denies. */
function unmetPerSecond(row: RecordRow, limit: Limit): number {
  if (!row.hungry || limit.windowMs === 0) return 0
  const capacity = partTokens(limit.capacity, limit.shards)
  const allowed = (capacity * 1_000 * row.share) / (limit.windowMs * POOL_UNITS)
  return Math.max(0, row.demand / 1_000 - allowed)
}

/** By how much a tracked key's counts grew; one that fell is tracked anew, from nothing. */
function grownBy(row: RecordRow, old: RecordRow | undefined): UsageCount {
  if (old === undefined || row.admitted < old.admitted || row.denied < old.denied) {
    return { admitted: row.admitted, denied: row.denied, returned: row.returned }
  }
  return minus(row, old)
}

/** Counts belong to the time since the last ones; what was lacking was lacking at present. */
function addSpread(series: Series, amounts: Amounts, fromMs: number, nowMs: number): void {
  const parts = [
    ...spread(amounts, fromMs, nowMs),
    { atMs: nowMs, amounts: { ...NO_AMOUNTS, unmet: amounts.unmet } },
  ]
  for (const part of parts) {
    series.seconds.add(part.atMs, part.amounts)
    series.minutes.add(part.atMs, part.amounts)
  }
}

/** Whole counts spread evenly over the seconds from `fromMs` to `toMs`; they sum to what was given. */
function spread(
  amounts: Amounts,
  fromMs: number,
  toMs: number,
): readonly { readonly atMs: number; readonly amounts: Amounts }[] {
  const parts = Math.max(1, Math.round((toMs - fromMs) / SECOND_MS))
  const upTo = (figure: number, part: number): number => Math.floor((figure * part) / parts)
  return Array.from({ length: parts }, (_, part) => ({
    atMs: toMs - (parts - 1 - part) * SECOND_MS,
    amounts: {
      admitted: upTo(amounts.admitted, part + 1) - upTo(amounts.admitted, part),
      denied: upTo(amounts.denied, part + 1) - upTo(amounts.denied, part),
      returned: upTo(amounts.returned, part + 1) - upTo(amounts.returned, part),
      unmet: 0,
    },
  }))
}

function idOf({ id, usageEpoch }: Limit) {
  return { limitId: id, usageEpoch }
}

function minus(count: UsageCount, less: UsageCount): UsageCount {
  return {
    admitted: Math.max(0, count.admitted - less.admitted),
    denied: Math.max(0, count.denied - less.denied),
    returned: Math.max(0, count.returned - less.returned),
  }
}

function isSame(one: UsageCount, other: UsageCount): boolean {
  return (
    one.admitted === other.admitted &&
    one.denied === other.denied &&
    one.returned === other.returned
  )
}

const hasSameCounts: (one: RecordRow, other: RecordRow) => boolean = isSame
