import { assert } from '../../shared/core/assert.ts'
import type { Limit, RegionLimitSpec, RegionPolicySpec } from '../../shared/core/policy.ts'
import type { Plane } from './plane.ts'

/**
 * What this region is to enforce of every policy: the plane's numbers with the region's own parts.
 *
 * The ledger gives a part for every limit it knows, and it knows those of the same plane; a missing one is our
 * own bug, since a limit without a part would admit nothing or everything.
 */
export function regionPolicies(
  plane: Plane,
  homes: ReadonlyMap<number, number>,
): readonly RegionPolicySpec[] {
  return [...plane.policies.values()].map(
    ({ description: _description, objective: _objective, ...policy }) => ({
      ...policy,
      limits: policy.limits.map((limit) => regionLimit(limit, homes.get(limit.id))),
    }),
  )
}

function regionLimit(limit: Limit, home: number | undefined): RegionLimitSpec {
  assert(home !== undefined, `the ledger has a part of limit ${limit.id}`)
  const { id, name, algorithm, calendar, shards, leases, candidateOf, usageEpoch } = limit
  const { capacity, windowMs, burst } = limit
  const rule = { id, name, algorithm, calendar, shards, leases, candidateOf, usageEpoch }
  return { ...rule, capacity, windowMs, burst, home }
}
