import type { RegionLimit, RegionPolicy } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'

/** A limit whose region has all of it, with valid defaults. */
export function aRegionLimit(change: Partial<RegionLimit> = {}): RegionLimit {
  return {
    id: 1,
    name: 'per-second',
    algorithm: 'token_bucket',
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
    match: [{ key: 'tenant' }],
    onStoreFailure: 'allow',
    limits: [aRegionLimit()],
    ...change,
  }
}
