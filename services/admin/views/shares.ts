import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { Limit, Policy, RegionId } from '../../../shared/core/policy.ts'
import { shareTokens } from '../../../shared/core/units.ts'
import type { SharesReply } from '../../../shared/protocol/admin-replies.ts'
import type { LiveView } from '../live-view.ts'
import { type HeardRow, type KeyRows, loansOf, loanUnits } from './loans.ts'

type LimitShares = SharesReply['limits'][number]
type KeyShares = LimitShares['keys'][number]
type RegionShares = KeyShares['regions'][number]

/** Rows by limit, key and region, of the newest record of each region. */
type RowIndex = ReadonlyMap<string, ReadonlyMap<string, KeyRows>>

const NO_ROWS: ReadonlyMap<string, KeyRows> = new Map()

export interface SharesQuery {
  readonly policies: readonly Policy[]
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly nowMs: number
  readonly keysMax: number
  /** Only keys that some region denies for want of a share. */
  readonly isHungryOnly?: boolean
  /** Only the key of this name. */
  readonly key?: string | undefined
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
    const heard = query.live.heard(region)
    const asOf = heard === null ? null : new Date(heard.heardAtMs).toISOString()
    return { region, asOf, ageMs, isRecovering }
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
    .filter(([key]) => query.key === undefined || key === query.key)
    .map(([key, rows]) => ({ key, rows, regions: regionShares(limit, rows, query.nowMs) }))
    .filter(({ regions }) => query.isHungryOnly !== true || regions.some((one) => one.isHungry))
    .sort((a, b) => demandOf(b) - demandOf(a))
  const { marks } = query.live
  const shown = keys.slice(0, query.keysMax).map(({ rows, ...key }) => ({
    ...key,
    loans: [...loansOf(rows, { capacity: limit.capacity, marks })],
  }))
  return {
    ...headOf(policy, limit),
    epoch: limit.epoch,
    isEpochOpen: limit.previousBase !== null,
    base: limit.base,
    keys: shown,
    keysLeftOut: Math.max(0, keys.length - query.keysMax),
  }
}

function regionShares(limit: Limit, rows: KeyRows, nowMs: number): RegionShares[] {
  const part = (units: number) => ({ units, tokens: shareTokens(limit.capacity, units) })
  return [...rows].map(([region, { row, heardAtMs }]) => ({
    region,
    share: part(row.share),
    base: part(limit.base[region] ?? 0),
    lent: sum(Object.values(row.lent).map(([, units, returned]) => units - returned)),
    borrowed: sum([...rows.keys()].map((lender) => loanUnits(lender, region, rows))),
    demandPerSecond: row.demand / 1_000,
    isHungry: row.hungry,
    admitted: row.admitted,
    denied: row.denied,
    returned: row.returned,
    ageMs: Math.max(0, Math.round(nowMs - heardAtMs)),
  }))
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

function demandOf(key: Pick<KeyShares, 'regions'>): number {
  return sum(key.regions.map((region) => region.demandPerSecond))
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0)
}
