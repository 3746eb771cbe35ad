import type { Limit, Policy, RegionId } from '../../../shared/core/policy.ts'
import type { UsageCount } from '../../../shared/core/usage/usage-table.ts'
import { usageWindowMs } from '../../../shared/core/usage-window.ts'
import type { UsageReply } from '../../../shared/protocol/admin-replies.ts'
import type { LiveView } from '../live-view.ts'
import { headOf } from './shares.ts'

type LimitUsage = UsageReply['limits'][number]
type WindowUsage = LimitUsage['windows'][number]

/** The present window and two before it: records come each second, so of short windows the last is the newest whole one. */
const WINDOWS_SHOWN = 3

export interface UsageQuery {
  readonly policies: readonly Policy[]
  readonly members: readonly RegionId[]
  readonly live: LiveView
  readonly nowMs: number
}

/** Usage of every limit of the policies, over all its keys, by region and in total. */
export function usageViewOf(query: UsageQuery): readonly LimitUsage[] {
  return query.policies.flatMap((policy) =>
    policy.limits.map((limit) => ({
      ...headOf(policy, limit),
      usageWindowMs: usageWindowMs(limit.windowMs),
      windows: windowsOf(limit, query),
    })),
  )
}

function windowsOf(limit: Limit, query: UsageQuery): WindowUsage[] {
  const present = Math.floor(query.nowMs / usageWindowMs(limit.windowMs))
  const count = Math.min(WINDOWS_SHOWN, present + 1)
  return Array.from({ length: count }, (_, back) => windowOf(limit, present - back, query))
}

function windowOf(limit: Limit, index: number, query: UsageQuery): WindowUsage {
  const lengthMs = usageWindowMs(limit.windowMs)
  const endMs = (index + 1) * lengthMs
  // Every count is a peer's, since admin has none of its own.
  const { byRegion, foreign } = query.live.usageOf(limit, index)
  const used = Math.max(0, foreign.admitted - foreign.returned)
  const refilled = limit.capacity * (lengthMs / limit.windowMs)
  return {
    index,
    startsAt: new Date(index * lengthMs).toISOString(),
    endsAt: new Date(endMs).toISOString(),
    isComplete: query.members.every((region) => isHeardAfter(query.live, region, endMs)),
    regions: query.members
      .filter((region) => byRegion.has(region))
      .map((region) => ({ region, ...amountsOf(byRegion.get(region)) })),
    total: { ...amountsOf(foreign), used, ofCapacity: refilled === 0 ? 0 : used / refilled },
  }
}

function isHeardAfter(live: LiveView, region: RegionId, instantMs: number): boolean {
  return (live.heard(region)?.heardAtMs ?? 0) > instantMs
}

function amountsOf(count: UsageCount | undefined): UsageCount {
  return {
    admitted: count?.admitted ?? 0,
    denied: count?.denied ?? 0,
    returned: count?.returned ?? 0,
  }
}
