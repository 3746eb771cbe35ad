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

interface WindowOf<Count> {
  readonly limitId: number
  readonly usageEpoch: number
  readonly window: number
  /** By region and incarnation. */
  readonly counts: ReadonlyMap<RegionId, ReadonlyMap<number, Count>>
}

export interface UsageTable {
  readonly self: RegionId
  readonly own: ReadonlyMap<string, WindowOf<OwnCount>>
  readonly foreign: ReadonlyMap<string, WindowOf<UsageCount>>
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

const NOTHING: UsageCount = { admitted: 0, denied: 0, returned: 0 }

export function createUsageTable(self: RegionId): UsageTable {
  return { self, own: new Map(), foreign: new Map() }
}

/** Takes in what this region's Redis counted under `incarnation`. Idempotent; figures never fall. */
export function recordOwn(
  table: UsageTable,
  report: { readonly incarnation: number; readonly rows: readonly UsageRow[] },
  rules: UsageRules,
): UsageTable {
  const fresh = (count: UsageCount, old: OwnCount | undefined): OwnCount =>
    old !== undefined && isSame(count, old) ? old : { ...count, sinceSeq: null }
  return { ...table, own: mergeRows(table.own, { region: table.self, ...report }, rules, fresh) }
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
  return {
    ...table,
    own: new Map([...table.own].filter(([, window]) => isCounted(window, rules))),
    foreign: new Map([...table.foreign].filter(([, window]) => isCounted(window, rules))),
  }
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
  for (const [key, window] of table.own) {
    const counts = window.counts.get(table.self)
    const count = counts?.get(record.incarnation)
    if (counts === undefined || count === undefined) continue
    if (count.sinceSeq !== null && count.sinceSeq <= record.ackedSeq) continue
    const { limitId, usageEpoch, window: index } = window
    const { admitted, denied, returned } = count
    rows.push({ limitId, usageEpoch, window: index, admitted, denied, returned })
    if (count.sinceSeq !== null) continue
    const stamped = new Map(counts).set(record.incarnation, { ...count, sinceSeq: record.seq })
    own.set(key, { ...window, counts: new Map([[table.self, stamped]]) })
  }
  return { table: { ...table, own }, rows }
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
  for (const window of [table.own.get(keyOf(of)), table.foreign.get(keyOf(of))]) {
    for (const [region, counts] of window?.counts ?? []) {
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

function mergeRows<Count extends UsageCount>(
  windows: ReadonlyMap<string, WindowOf<Count>>,
  report: {
    readonly region: RegionId
    readonly incarnation: number
    readonly rows: readonly UsageRow[]
  },
  rules: UsageRules,
  stored: (count: UsageCount, old: Count | undefined) => Count,
): ReadonlyMap<string, WindowOf<Count>> {
  const merged = new Map(windows)
  for (const row of report.rows) {
    if (!isCounted(row, rules)) continue
    const { limitId, usageEpoch, window } = row
    const old = merged.get(keyOf(row))
    const counts = new Map(old?.counts.get(report.region))
    const before = counts.get(report.incarnation)
    counts.set(report.incarnation, stored(larger(row, before ?? NOTHING), before))
    const byRegion = new Map(old?.counts).set(report.region, newest(counts))
    merged.set(keyOf(row), { limitId, usageEpoch, window, counts: byRegion })
  }
  return merged
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

function keyOf(of: {
  readonly limitId: number
  readonly usageEpoch: number
  readonly window: number
}): string {
  return `${of.limitId}.${of.usageEpoch}:${of.window}`
}
