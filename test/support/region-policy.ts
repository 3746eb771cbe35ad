import type { LimitRule, Policy, RegionLimit, RegionPolicy } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'

/** What a limit is that uses none of the special features. */
export const PLAIN_LIMIT = {
  calendar: null,
  shards: 1,
  leases: 'auto',
  candidateOf: null,
} as const satisfies Partial<LimitRule>

/** What a policy is that uses none of the special features. */
export const PLAIN_POLICY = {
  mode: 'strict',
  relaxedPercent: null,
  shadow: false,
  unlimited: false,
} as const satisfies Partial<Policy>

/** A limit whose region has all of it, with valid defaults. */
export function aRegionLimit(change: Partial<RegionLimit> = {}): RegionLimit {
  return {
    id: 1,
    name: 'per-second',
    algorithm: 'token_bucket',
    ...PLAIN_LIMIT,
    capacity: 10,
    windowMs: 1_000,
    burst: change.capacity ?? 10,
    usageEpoch: 0,
    home: POOL_UNITS,
    version: 1,
    previous: null,
    changedAtUs: 0,
    idle: { tokens: change.capacity ?? 10, atUs: 0 },
    ...change,
  }
}

/** A policy for each value of the key `tenant`, with valid defaults. */
export function aRegionPolicy(change: Partial<RegionPolicy> = {}): RegionPolicy {
  return {
    id: 1,
    domain: 'api',
    name: 'tenants',
    revision: 1,
    ...PLAIN_POLICY,
    match: [{ key: 'tenant' }],
    onStoreFailure: 'allow',
    limits: [aRegionLimit()],
    ...change,
  }
}
