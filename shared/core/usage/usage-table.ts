/**
 * Usage of limits per window in every region, as counters that only grow (PN: admitted, denied, returned).
 *
 * A count is identified by limit, usage epoch, window, region and incarnation, and two reports of one count are
 * merged by the larger figure: so lost, late, doubled and reordered reports end in the same totals, and a late
 * one lands in its own window only. A region that lost its counters counts on under its next incarnation, beside
 * the old count. A reset is a new usage epoch: nothing of the old one can be merged into it. Counts are created
 * and pruned, never lowered. Own and foreign counts are kept apart; only own ones are published.
 */
import type { UsageRow } from '../ledger/types.ts'
import type { RegionId } from '../policy.ts'
import { usageWindowMs } from '../usage-window.ts'

export interface UsageCount {
  readonly admitted: number
  readonly denied: number
  readonly returned: number
}

/** The numbers of a limit that decide which reports belong to it. */
export interface CountedLimit {
  readonly windowMs: number
  readonly usageEpoch: number
}

/** What is accepted and kept: depends on the limits and on wall-clock time alone, not on what came before. */
export interface UsageRules {
  readonly limits: ReadonlyMap<number, CountedLimit>
  readonly wallMs: number
}

interface OwnCount extends UsageCount {
  /** Sequence number of the first record that carried these figures; null before one did. */
  readonly sinceSeq: number | null
}

/** By region and incarnation. */
type Counts<Count> = ReadonlyMap<RegionId, ReadonlyMap<number, Count>>

/** All windows of one limit in one usage epoch. */
interface LimitUsage<Count> {
  readonly limitId: number
  readonly usageEpoch: number
  readonly windows: ReadonlyMap<number, Counts<Count>>
}

type Usage<Count> = ReadonlyMap<string, LimitUsage<Count>>

/**
 * A value: what changes it gives another, and what did not change is shared between the two. A plane has thousands of
 * limits with dozens of windows each, and a record touches a few, so nothing is ever copied but the limits it touches.
 */
export interface UsageTable {
  readonly self: RegionId
  readonly own: Usage<OwnCount>
  readonly foreign: Usage<UsageCount>
  /** Limits whose own counts changed lately, with the first record that told of it; null before one did. */
  readonly recent: ReadonlyMap<string, number | null>
}

/**
 * Windows of a limit that are kept, the running one included: as many as a region's Redis keeps, so that a
 * region cut off for that long still ends with exact totals.
 */
export const USAGE_WINDOWS_MAX = 64

/**
 * Incarnations kept of one region in one window, the newest ones. Each costs a region its memory and a wait of
 * ten seconds, so only windows of hours can meet more; it bounds what a confused peer can fill.
 */
export const USAGE_INCARNATIONS_MAX = 64

/**
 * Records for which it is remembered which limits they told of anew: half a minute of the most that are sent. One that
 * rests on an older record costs a look at every limit.
 */
const RECENT_RECORDS = 300

const NOTHING: UsageCount = { admitted: 0, denied: 0, returned: 0 }

export function createUsageTable(self: RegionId): UsageTable {
  return { self, own: new Map(), foreign: new Map(), recent: new Map() }
}

/** Takes in what this region's Redis counted under `incarnation`. Idempotent; figures never fall. */
export function recordOwn(
  table: UsageTable,
  report: { readonly incarnation: number; readonly rows: readonly UsageRow[] },
  rules: UsageRules,
): UsageTable {
  const fresh = (count: UsageCount, old: OwnCount | undefined): OwnCount =>
    old !== undefined && isSame(count, old) ? old : { ...count, sinceSeq: null }
  const own = mergeRows(table.own, { region: table.self, ...report }, rules, fresh)
  const recent = new Map(table.recent)
  for (const row of report.rows) {
    const key = keyOf(row)
    if (own.get(key) !== table.own.get(key)) recent.set(key, null)
  }
  return { ...table, own, recent }
}

/** Takes in a peer's rows. Rows under this region's own name are ignored: they are echoes or forgeries. */
export function mergeForeign(
  table: UsageTable,
  report: {
    readonly region: RegionId
    readonly incarnation: number
    readonly rows: readonly UsageRow[]
  },
  rules: UsageRules,
): UsageTable {
  if (report.region === table.self) return table
  return { ...table, foreign: mergeRows(table.foreign, report, rules, (count) => count) }
}

/** Forgets windows that ended too long ago, removed limits and usage before a reset. */
export function pruneUsage(table: UsageTable, rules: UsageRules): UsageTable {
  const own = pruned(table.own, rules)
  return { ...table, own, foreign: pruned(table.foreign, rules) }
}

/**
 * Own rows for the record `seq`: those that some peer may not have, by `ackedSeq`, the newest record that every
 * peer in reach has processed. So each record alone repairs whatever was lost before it, and a long silence
 * costs no more than the windows kept.
 */
export function publishOwn(
  table: UsageTable,
  record: { readonly incarnation: number; readonly seq: number; readonly ackedSeq: number },
): { readonly table: UsageTable; readonly rows: readonly UsageRow[] } {
  const rows: UsageRow[] = []
  const own = new Map(table.own)
  const recent = new Map(table.recent)
  const oldestSeq = record.seq - RECENT_RECORDS
  for (const key of record.ackedSeq < oldestSeq ? table.own.keys() : table.recent.keys()) {
    const limit = table.own.get(key)
    if (limit === undefined) {
      recent.delete(key)
      continue
    }
    const told = tellLimit(limit, table.self, record, rows)
    if (told.limit !== limit) own.set(key, told.limit)
    if (told.sinceSeq >= oldestSeq) recent.set(key, told.sinceSeq)
    else recent.delete(key)
  }
  return { table: { ...table, own, recent }, rows }
}

/** Adds a limit's rows to `rows`; gives the limit with them stamped, and the latest record that a count changed in. */
function tellLimit(
  limit: LimitUsage<OwnCount>,
  self: RegionId,
  record: { readonly incarnation: number; readonly seq: number; readonly ackedSeq: number },
  rows: UsageRow[],
): { readonly limit: LimitUsage<OwnCount>; readonly sinceSeq: number } {
  const { limitId, usageEpoch } = limit
  let windows: Map<number, Counts<OwnCount>> | null = null
  let latest = -1
  for (const [window, byRegion] of limit.windows) {
    const counts = byRegion.get(self)
    const count = counts?.get(record.incarnation)
    if (counts === undefined || count === undefined) continue
    const sinceSeq = count.sinceSeq ?? record.seq
    latest = Math.max(latest, sinceSeq)
    if (sinceSeq <= record.ackedSeq) continue
    const { admitted, denied, returned } = count
    rows.push({ limitId, usageEpoch, window, admitted, denied, returned })
    if (count.sinceSeq !== null) continue
    windows ??= new Map(limit.windows)
    const stamped = new Map(counts).set(record.incarnation, { ...count, sinceSeq })
    windows.set(window, new Map([[self, stamped]]))
  }
  return { limit: windows === null ? limit : { ...limit, windows }, sinceSeq: latest }
}

export interface WindowUsage {
  readonly own: UsageCount
  readonly foreign: UsageCount
  readonly byRegion: ReadonlyMap<RegionId, UsageCount>
}

/** Usage of one limit in one window, all incarnations of a region together. */
export function usageOf(
  table: UsageTable,
  of: { readonly limitId: number; readonly usageEpoch: number; readonly window: number },
): WindowUsage {
  const byRegion = new Map<RegionId, UsageCount>()
  for (const usage of [table.own, table.foreign]) {
    for (const [region, counts] of usage.get(keyOf(of))?.windows.get(of.window) ?? []) {
      byRegion.set(region, [...counts.values()].reduce(add, NOTHING))
    }
  }
  const foreign = [...byRegion].filter(([region]) => region !== table.self)
  return {
    own: byRegion.get(table.self) ?? NOTHING,
    foreign: foreign.map(([, count]) => count).reduce(add, NOTHING),
    byRegion,
  }
}

interface Report {
  readonly region: RegionId
  readonly incarnation: number
  readonly rows: readonly UsageRow[]
}

function mergeRows<Count extends UsageCount>(
  usage: Usage<Count>,
  report: Report,
  rules: UsageRules,
  stored: (count: UsageCount, old: Count | undefined) => Count,
): Usage<Count> {
  let merged: Map<string, LimitUsage<Count>> | null = null
  /** Windows of limits that are this merge's own to change. */
  const open = new Map<string, Map<number, Counts<Count>>>()
  for (const row of report.rows) {
    if (!isCounted(row, rules)) continue
    const key = keyOf(row)
    const limit = (merged ?? usage).get(key)
    const byRegion = limit?.windows.get(row.window)
    const before = byRegion?.get(report.region)?.get(report.incarnation)
    const count = larger(row, before ?? NOTHING)
    if (before !== undefined && isSame(count, before)) continue
    merged ??= new Map(usage)
    const windows = open.get(key) ?? new Map(limit?.windows)
    const counts = new Map(byRegion?.get(report.region))
    counts.set(report.incarnation, stored(count, before))
    windows.set(row.window, new Map(byRegion).set(report.region, newest(counts)))
    if (open.has(key)) continue
    open.set(key, windows)
    merged.set(key, { limitId: row.limitId, usageEpoch: row.usageEpoch, windows })
  }
  return merged ?? usage
}

function pruned<Count>(usage: Usage<Count>, rules: UsageRules): Usage<Count> {
  let kept: Map<string, LimitUsage<Count>> | null = null
  for (const [key, limit] of usage) {
    const { limitId, usageEpoch } = limit
    const old = [...limit.windows.keys()].filter(
      (window) => !isCounted({ limitId, usageEpoch, window }, rules),
    )
    if (old.length === 0) continue
    kept ??= new Map(usage)
    const windows = new Map(limit.windows)
    for (const window of old) windows.delete(window)
    if (windows.size === 0) kept.delete(key)
    else kept.set(key, { ...limit, windows })
  }
  return kept ?? usage
}

/** Only the running epoch of a known limit, and only windows that ran lately: a far future one is nonsense. */
function isCounted(
  row: { readonly limitId: number; readonly usageEpoch: number; readonly window: number },
  rules: UsageRules,
): boolean {
  const limit = rules.limits.get(row.limitId)
  if (limit === undefined || limit.usageEpoch !== row.usageEpoch) return false
  const running = Math.floor(rules.wallMs / usageWindowMs(limit.windowMs))
  // A peer whose clock runs ahead may be one window further.
  return row.window > running - USAGE_WINDOWS_MAX && row.window <= running + 1
}

function newest<Count>(counts: ReadonlyMap<number, Count>): ReadonlyMap<number, Count> {
  if (counts.size <= USAGE_INCARNATIONS_MAX) return counts
  return new Map([...counts].sort(([one], [other]) => other - one).slice(0, USAGE_INCARNATIONS_MAX))
}

function larger(one: UsageCount, other: UsageCount): UsageCount {
  return {
    admitted: Math.max(one.admitted, other.admitted),
    denied: Math.max(one.denied, other.denied),
    returned: Math.max(one.returned, other.returned),
  }
}

function add(one: UsageCount, other: UsageCount): UsageCount {
  return {
    admitted: one.admitted + other.admitted,
    denied: one.denied + other.denied,
    returned: one.returned + other.returned,
  }
}

function isSame(one: UsageCount, other: UsageCount): boolean {
  return (
    one.admitted === other.admitted &&
    one.denied === other.denied &&
    one.returned === other.returned
  )
}

function keyOf(of: { readonly limitId: number; readonly usageEpoch: number }): string {
  return `${of.limitId}.${of.usageEpoch}`
}
