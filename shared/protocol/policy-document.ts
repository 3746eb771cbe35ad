import type { PolicyReply } from './admin-replies.ts'

/** What an operator writes, without what admin adds. */
export function documentOf(policy: PolicyReply): object {
  return {
    domain: policy.domain,
    name: policy.name,
    ...(policy.description !== '' && { description: policy.description }),
    match: policy.match,
    mode: policy.mode,
    ...(policy.relaxedPercent !== undefined && { relaxedPercent: policy.relaxedPercent }),
    ...(policy.objective !== 'max-min' && { objective: policy.objective }),
    onStoreFailure: policy.onStoreFailure,
    ...(policy.shadow && { shadow: true }),
    ...(policy.unlimited && { unlimited: true }),
    ...(policy.replaces !== undefined && { replaces: policy.replaces }),
    ...(policy.rebase !== 'off' && { rebase: policy.rebase }),
    ...(policy.acceptSmallLimits && { acceptSmallLimits: true }),
    ...(policy.limits.length > 0 && { limits: policy.limits.map(limitDocumentOf) }),
    ...(policy.tiers !== undefined && { tiers: policy.tiers }),
    ...(policy.overridesBy !== undefined && { overridesBy: policy.overridesBy }),
    ...(policy.labels !== undefined && { labels: policy.labels }),
  }
}

function limitDocumentOf(limit: PolicyReply['limits'][number]): object {
  const { name, algorithm, windowMs, calendar, holdMs, candidate, shards, leases } = limit
  return {
    name,
    algorithm,
    ...numbersOf(limit),
    ...(windowMs !== undefined && { windowMs }),
    ...(calendar !== undefined && { calendar }),
    ...(holdMs !== undefined && { holdMs }),
    split: limit.split,
    floorPercent: limit.floorPercent,
    ...(candidate !== undefined && { candidate: numbersOf(candidate) }),
    ...(shards !== 1 && { shards }),
    ...(leases !== 'auto' && { leases }),
  }
}

function numbersOf(limit: {
  readonly capacity: number
  readonly burst: number
  readonly burstFollowsCapacity: boolean
}): object {
  return { capacity: limit.capacity, ...(!limit.burstFollowsCapacity && { burst: limit.burst }) }
}
