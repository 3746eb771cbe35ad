import { assert } from '../../shared/core/assert.ts'
import { partTokens } from '../../shared/core/counter-parts.ts'
import { nextEmergencyEndMs } from '../../shared/core/emergency.ts'
import { holdingOf, type ModeRule, pooledTokens } from '../../shared/core/enforced.ts'
import type { NumbersByLimit } from '../../shared/core/overrides.ts'
import type { Limit, Policy, RegionLimitSpec, RegionPolicySpec } from '../../shared/core/policy.ts'
import type { Plane } from './plane.ts'
import { type OpenedWindows, windowsKey } from './stock-book.ts'

/**
 * What this region is to enforce of every policy: the plane's numbers with the region's own parts.
 *
 * The ledger gives a part for every limit it knows, and it knows those of the same plane; a missing one is our
 * own bug, since a limit without a part would admit nothing or everything.
 */
export function* regionPolicies(
  plane: Plane,
  homes: ReadonlyMap<number, number>,
  stock: OpenedWindows,
  storeMs: number,
): Iterable<RegionPolicySpec> {
  for (const {
    description: _d,
    objective: _o,
    emergency: _e,
    ...policy
  } of plane.policies.values())
    yield {
      ...policy,
      ...variantsOf(policy, storeMs),
      limits: policy.limits.map((limit) =>
        regionLimit(policy, limit, { home: homes.get(limit.id), stock }),
      ),
    }
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
  const capacity = partTokens(pooledTokens(policy, limit.capacity), shards)
  const burst = partTokens(pooledTokens(policy, limit.burst), shards)
  const spec = { ...rule, capacity, windowMs, burst, home }
  const told = capacity === limit.capacity ? spec : { ...spec, nominal: limit.capacity }
  const holding = holdingOf(policy, limit)
  if (holding === 'share') return told
  if (holding === 'estimate') return { ...told, estimate: true }
  return { ...told, stock: parts.stock.get(windowsKey(id, usageEpoch)) ?? [] }
}

/** Tiers and overrides with what the mode makes of their numbers; those that have expired are left out. */
function variantsOf(
  policy: ModeRule & Pick<Policy, 'tiers' | 'overrides' | 'limits'>,
  storeMs: number,
): Pick<RegionPolicySpec, 'tiers' | 'overrides'> {
  const { tiers, overrides } = policy
  const { limits: named } = policy
  const pooled = (limits: NumbersByLimit): NumbersByLimit =>
    mapValues(limits, ({ capacity, burst }, name) => {
      const { shards = 1 } = named.find((limit) => limit.name === name) ?? {}
      const part = (tokens: number): number => partTokens(pooledTokens(policy, tokens), shards)
      return { capacity: part(capacity), ...(burst !== undefined && { burst: part(burst) }) }
    })
  const inForce = overrides
    ?.filter(({ expiresAtMs = Number.POSITIVE_INFINITY }) => storeMs < expiresAtMs)
    .map(({ value, rule }) => ({
      value,
      rule: rule.kind === 'numbers' ? { ...rule, limits: pooled(rule.limits) } : rule,
    }))
  return {
    ...(tiers !== undefined && { tiers: mapValues(tiers, pooled) }),
    ...(inForce !== undefined && { overrides: inForce }),
  }
}

/** When the next override or emergency action ends; infinity without any. */
export function nextExpiryMs(plane: Plane, storeMs: number): number {
  let next = nextEmergencyEndMs(plane.policies.values(), storeMs)
  for (const { overrides = [] } of plane.policies.values()) {
    for (const { expiresAtMs = next } of overrides) {
      if (expiresAtMs > storeMs) next = Math.min(next, expiresAtMs)
    }
  }
  return next
}

function mapValues<A, B>(record: Readonly<Record<string, A>>, map: (value: A, key: string) => B) {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]))
}
