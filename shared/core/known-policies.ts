/**
 * Whether an enforcer of this version can apply what its region's daemon wrote.
 *
 * A daemon of a later version may write what an older enforcer would not enforce, or would enforce otherwise than it is
 * meant. Such policies are refused as a whole: an enforcer that skipped what it does not know would say that it applies
 * a version which it does not.
 */
import { ALGORITHMS, MODES, type RegionPolicy, STORE_FAILURE_BEHAVIOURS } from './policy.ts'
import type { RegionPolicies } from './ports.ts'

/**
 * Format of the policies that a daemon writes for its enforcers; a higher one has something that an enforcer of this
 * version would leave out. Raised with each such change, so that a region may be upgraded part by part.
 */
export const REGION_POLICY_FORMAT = 1

const OVERRIDE_KINDS = ['tier', 'numbers', 'unlimited', 'deny']

/** Why these policies cannot be applied; null where they can. */
export function refusalOf({
  format = REGION_POLICY_FORMAT,
  policies,
}: RegionPolicies): string | null {
  if (format > REGION_POLICY_FORMAT) {
    return `policies of format ${format} were written, and this enforcer knows ${REGION_POLICY_FORMAT}: upgrade it`
  }
  for (const policy of policies) {
    const unknown = unknownIn(policy)
    if (unknown === null) continue
    return `policy ${policy.domain}/${policy.name} has ${unknown}, which this enforcer does not know: upgrade it`
  }
  return null
}

function unknownIn({ mode, onStoreFailure, limits, overrides = [] }: RegionPolicy): string | null {
  if (!isOneOf(MODES, mode)) return `the mode ${mode}`
  if (!isOneOf(STORE_FAILURE_BEHAVIOURS, onStoreFailure)) {
    return `the store failure behaviour ${onStoreFailure}`
  }
  const limit = limits.find(({ algorithm }) => !isOneOf(ALGORITHMS, algorithm))
  if (limit !== undefined) return `the algorithm ${limit.algorithm}`
  const override = overrides.find(
    ({ rule }) => rule !== null && !isOneOf(OVERRIDE_KINDS, rule.kind),
  )
  return override === undefined ? null : `an override of the kind ${override.rule?.kind}`
}

function isOneOf(known: readonly string[], word: string): boolean {
  return known.includes(word)
}
