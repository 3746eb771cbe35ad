import { unreachable } from '../../../shared/core/assert.ts'
import { parseCounterId } from '../../../shared/core/counter-id.ts'
import type { Limit, Policy, RegionId } from '../../../shared/core/policy.ts'
import type { TopBy, UsageTopReply } from '../../../shared/protocol/reading-replies.ts'
import { type Amounts, NO_AMOUNTS, plus } from '../history/amount-ring.ts'
import { SECOND_MS, SECONDS_KEPT, type Series } from '../history/series-book.ts'
import type { LiveView } from '../live-view.ts'
import { headOf } from './shares.ts'

type TopItem = Omit<UsageTopReply['items'][number], 'rank'>

export interface TopQuery {
  readonly policies: readonly Policy[]
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly by: TopBy
  readonly region: RegionId | undefined
  /** What a key must have in it, in any case. */
  readonly search?: string | undefined
  /** From which to before which instant. */
  readonly fromMs: number
  readonly toMs: number
}

/** Hot keys that have any of what is asked for, those with most of it first; equal ones by limit and key. */
export function usageTopOf(query: TopQuery): readonly TopItem[] {
  const limits = limitsOf(query.policies)
  const hungry = hungryKeys(query)
  const wanted = query.search?.toLowerCase() ?? ''
  const byKey = new Map<string, { series: Series; regions: Map<RegionId, Amounts> }>()
  for (const series of query.live.history.keys.all()) {
    if (limits.get(series.limitId)?.limit.usageEpoch !== series.usageEpoch) continue
    if (query.region !== undefined && series.region !== query.region) continue
    if (!series.key?.toLowerCase().includes(wanted)) continue
    const name = `${series.limitId} ${series.key}`
    const found = byKey.get(name) ?? { series, regions: new Map<RegionId, Amounts>() }
    found.regions.set(series.region, sumOf(series, query))
    byKey.set(name, found)
  }
  return [...byKey]
    .flatMap(([name, { series, regions }]) => {
      const found = limits.get(series.limitId)
      const value = rankedBy([...regions.values()].reduce(plus, NO_AMOUNTS), query.by)
      if (found === undefined || value <= 0) return []
      return [
        {
          ...headOf(found.policy, found.limit),
          key: series.key ?? '',
          value,
          isHungry: hungry.has(name),
          total: wholeAmounts([...regions.values()].reduce(plus, NO_AMOUNTS)),
          regions: [...regions]
            .map(([region, amounts]) => ({ region, ...wholeAmounts(amounts) }))
            .sort((one, other) => (one.region < other.region ? -1 : 1)),
        },
      ]
    })
    .sort(compareTop)
}

/** The order of the list; a page goes on after the last item of the one before. */
export function compareTop(
  one: Pick<TopItem, 'value' | 'limitId' | 'key'>,
  other: Pick<TopItem, 'value' | 'limitId' | 'key'>,
): number {
  if (one.value !== other.value) return other.value - one.value
  if (one.limitId !== other.limitId) return one.limitId - other.limitId
  if (one.key === other.key) return 0
  return one.key < other.key ? -1 : 1
}

/** Unmet demand is an estimate: a fraction of a token is nothing to show. */
export function wholeAmounts({ admitted, denied, returned, unmet }: Amounts) {
  return { admitted, denied, returned, unmet: Math.round(unmet) }
}

function limitsOf(
  policies: readonly Policy[],
): ReadonlyMap<number, { policy: Policy; limit: Limit }> {
  return new Map(
    policies.flatMap((policy) =>
      policy.limits.map((limit) => [limit.id, { policy, limit }] as const),
    ),
  )
}

function sumOf({ seconds, minutes }: Series, { fromMs, toMs }: TopQuery): Amounts {
  const ring = toMs - fromMs <= SECONDS_KEPT * SECOND_MS ? seconds : minutes
  return ring.sum(Math.floor(fromMs / ring.slotMs), Math.ceil(toMs / ring.slotMs))
}

function rankedBy({ admitted, denied, returned, unmet }: Amounts, by: TopBy): number {
  switch (by) {
    case 'use':
      return Math.max(0, admitted - returned)
    case 'denial':
      return denied
    case 'unmet':
      return Math.round(unmet)
    default:
      return unreachable(by)
  }
}

function hungryKeys({ members, live, region: only }: TopQuery): ReadonlySet<string> {
  const names = members
    .filter((region) => only === undefined || region === only)
    .flatMap((region) => live.heard(region)?.record.rows ?? [])
    .filter(({ hungry }) => hungry)
    .map(({ id }) => parseCounterId(id))
  return new Set(names.map((id) => `${id?.limitId} ${id?.name}`))
}
