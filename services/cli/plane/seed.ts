import type { PolicyInput } from '../../../shared/protocol/policy.ts'

/** What a newcomer finds in a fresh plane: 10,000 checks a second for each tenant, over all regions. */
export function examplePolicy(regions: readonly string[]): PolicyInput {
  return {
    domain: 'api',
    name: 'per-tenant',
    description: 'Example: 10,000 checks a second for each tenant, over all regions together.',
    match: [{ key: 'tenant' }],
    onStoreFailure: 'allow',
    mode: 'strict',
    limits: [
      {
        name: 'per-second',
        algorithm: 'token_bucket',
        capacity: 10_000,
        windowMs: 1_000,
        split: exampleSplit(regions),
        floorPercent: 2,
      },
    ],
  }
}

/** 60/40 for two regions; for more, even parts that sum to 100, the first ones larger by one where needed. */
export function exampleSplit(regions: readonly string[]): Record<string, number> {
  const [first, second] = regions
  if (regions.length === 2 && first !== undefined && second !== undefined) {
    return { [first]: 60, [second]: 40 }
  }
  const part = Math.floor(100 / regions.length)
  const larger = 100 - part * regions.length
  return Object.fromEntries(regions.map((region, i) => [region, part + (i < larger ? 1 : 0)]))
}
