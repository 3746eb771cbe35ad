import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { RecordRow } from '../../../shared/core/ledger/types.ts'
import type { Limit, Policy, RegionId } from '../../../shared/core/policy.ts'
import { shareTokens } from '../../../shared/core/units.ts'
import type { SharesReply } from '../../../shared/protocol/admin-replies.ts'
import type { HeardRecord, LiveView } from '../live-view.ts'

type LimitShares = SharesReply['limits'][number]
type KeyShares = LimitShares['keys'][number]
type RegionShares = KeyShares['regions'][number]

/** What one region says of one key. */
interface HeardRow extends HeardRecord {
  readonly row: RecordRow
}

/** Rows by limit, key and region, of the newest record of each region. */
type RowIndex = ReadonlyMap<string, ReadonlyMap<string, ReadonlyMap<RegionId, HeardRow>>>

const NO_ROWS: ReadonlyMap<string, ReadonlyMap<RegionId, HeardRow>> = new Map()

export interface SharesQuery {
  readonly policies: readonly Policy[]
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly nowMs: number
  readonly keysMax: number
}

/** Shares of every limit of the policies, with the hot keys that regions published. */
export function sharesOf(query: SharesQuery): readonly LimitShares[] {
  const index = indexRows(query)
  return query.policies.flatMap((policy) =>
    policy.limits.map((limit) => limitShares(policy, limit, query, index)),
  )
}

/** Head of a limit in a view. */
export function headOf(policy: Policy, limit: Limit) {
  const { capacity, windowMs, burst } = limit
  return {
    domain: policy.domain,
    policy: policy.name,
    limit: limit.name,
    limitId: limit.id,
    capacity,
    windowMs,
    burst,
  }
}

/** How fresh the figures of each region are. */
export function agesOf(query: Pick<SharesQuery, 'members' | 'live' | 'nowMs'>) {
  return query.members.map((region) => {
    const { ageMs, isRecovering } = query.live.health(region, query.nowMs)
    return { region, ageMs, isRecovering }
  })
}

function limitShares(
  policy: Policy,
  limit: Limit,
  query: SharesQuery,
  index: RowIndex,
): LimitShares {
  const rowsByKey = index.get(indexKey(limit.id, limit.usageEpoch)) ?? NO_ROWS
  const keys = [...rowsByKey]
    .map(([key, rows]) => ({ key, regions: regionShares(limit, rows, query.nowMs) }))
    .sort((a, b) => demandOf(b) - demandOf(a))
  return {
    ...headOf(policy, limit),
    epoch: limit.epoch,
    isEpochOpen: limit.previousBase !== null,
    base: limit.base,
    keys: keys.slice(0, query.keysMax),
    keysLeftOut: Math.max(0, keys.length - query.keysMax),
  }
}

function regionShares(
  limit: Limit,
  rows: ReadonlyMap<RegionId, HeardRow>,
  nowMs: number,
): RegionShares[] {
  const part = (units: number) => ({ units, tokens: shareTokens(limit.capacity, units) })
  return [...rows].map(([region, { row, heardAtMs }]) => ({
    region,
    share: part(row.share),
    base: part(limit.base[region] ?? 0),
    lent: sum(Object.values(row.lent).map(([, units, returned]) => units - returned)),
    borrowed: borrowedUnits(region, rows),
    demandPerSecond: row.demand / 1_000,
    isHungry: row.hungry,
    admitted: row.admitted,
    denied: row.denied,
    returned: row.returned,
    ageMs: Math.max(0, Math.round(nowMs - heardAtMs)),
  }))
}

/** What peers say they lent the region in the term that it still uses, less what it says it gave back. */
function borrowedUnits(region: RegionId, rows: ReadonlyMap<RegionId, HeardRow>): number {
  const own = rows.get(region)
  if (own === undefined) return 0
  const loans = [...rows].map(([lender, theirs]) => {
    const lent = theirs.row.lent[region]
    const pair = own.record.pairs[lender]?.borrow
    const term = theirs.record.pairs[region]?.lend[0]
    if (lent === undefined || pair === undefined || pair[1] !== term || pair[2] === 1) return 0
    if (pair[0] !== theirs.record.mark.incarnation) return 0
    return Math.max(0, lent[1] - (own.row.gaveBack[lender]?.[1] ?? 0))
  })
  return sum(loans)
}

function indexRows(query: SharesQuery): RowIndex {
  const wanted = new Set(
    query.policies.flatMap((policy) =>
      policy.limits.map((limit) => indexKey(limit.id, limit.usageEpoch)),
    ),
  )
  const index = new Map<string, Map<string, Map<RegionId, HeardRow>>>()
  for (const region of query.members) {
    const heard = query.live.heard(region)
    for (const row of heard?.record.rows ?? []) {
      const id = parseCounterId(row.id)
      if (heard === null || id === null) continue
      const limitKey = indexKey(id.limitId, id.usageEpoch)
      if (!wanted.has(limitKey)) continue
      const byKey = getOrCreate(index, limitKey, () => new Map<string, Map<RegionId, HeardRow>>())
      getOrCreate(byKey, id.name, () => new Map<RegionId, HeardRow>()).set(region, {
        ...heard,
        row,
      })
    }
  }
  return index
}

function getOrCreate<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const found = map.get(key)
  if (found !== undefined) return found
  const created = create()
  map.set(key, created)
  return created
}

function indexKey(limitId: number, usageEpoch: number): string {
  return `${limitId}.${usageEpoch}`
}

function demandOf(key: KeyShares): number {
  return sum(key.regions.map((region) => region.demandPerSecond))
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0)
}
