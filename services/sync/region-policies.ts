import { assert } from '../../shared/core/assert.ts'
import { holdingOf, type ModeRule, pooledTokens } from '../../shared/core/enforced.ts'
import type { Limit, RegionLimitSpec, RegionPolicySpec } from '../../shared/core/policy.ts'
import type { Plane } from './plane.ts'
import { type OpenedWindows, windowsKey } from './stock-book.ts'

/**
 * What this region is to enforce of every policy: the plane's numbers with the region's own parts.
 *
 * The ledger gives a part for every limit it knows, and it knows those of the same plane; a missing one is our
 * own bug, since a limit without a part would admit nothing or everything.
 */
export function regionPolicies(
  plane: Plane,
  homes: ReadonlyMap<number, number>,
  stock: OpenedWindows,
): readonly RegionPolicySpec[] {
  return [...plane.policies.values()].map(
    ({ description: _description, objective: _objective, ...policy }) => ({
      ...policy,
      limits: policy.limits.map((limit) =>
        regionLimit(policy, limit, { home: homes.get(limit.id), stock }),
      ),
    }),
  )
}

function regionLimit(
  policy: ModeRule,
  limit: Limit,
  parts: { readonly home: number | undefined; readonly stock: OpenedWindows },
): RegionLimitSpec {
  const { home } = parts
  assert(home !== undefined, `the ledger has a part of limit ${limit.id}`)
  const { id, name, algorithm, calendar, shards, leases, candidateOf, usageEpoch } = limit
  const { windowMs } = limit
  const rule = { id, name, algorithm, calendar, shards, leases, candidateOf, usageEpoch }
  const capacity = pooledTokens(policy, limit.capacity)
  const burst = pooledTokens(policy, limit.burst)
  const spec = { ...rule, capacity, windowMs, burst, home }
  const told = capacity === limit.capacity ? spec : { ...spec, nominal: limit.capacity }
  const holding = holdingOf(policy, limit)
  if (holding === 'share') return told
  if (holding === 'estimate') return { ...told, estimate: true }
  return { ...told, stock: parts.stock.get(windowsKey(id, usageEpoch)) ?? [] }
}
