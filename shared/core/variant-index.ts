import { valueInName } from './counter-id.ts'
import {
  numbersOf,
  overrideEntry,
  type RegionOverride,
  stampedVariant,
  variantOf,
} from './overrides.ts'
import type { RegionLimit, RegionPolicy } from './policy.ts'

/** Overrides of one policy by the tenant's value. */
export interface PolicyOverrides {
  readonly policy: RegionPolicy
  /** Place in the match of the entry that names the tenant. */
  readonly entry: number
  readonly byValue: ReadonlyMap<string, RegionOverride>
}

/** Null for a policy without any. */
export function policyOverrides(policy: RegionPolicy): PolicyOverrides | null {
  const { overrides = [], match, overridesBy = null } = policy
  if (overrides.length === 0) return null
  const byValue = new Map(overrides.map((override) => [override.value, override]))
  return { policy, entry: overrideEntry(match, overridesBy), byValue }
}

/** A limit as a tenant with this override has it. */
export function tenantLimit(
  policy: RegionPolicy,
  limit: RegionLimit,
  override: RegionOverride | undefined,
): RegionLimit {
  // A candidate is what all tenants would have.
  if (override === undefined || limit.candidateOf !== null) return limit
  const numbers = numbersOf(override.rule, policy.tiers ?? {}, limit.name)
  return stampedVariant(variantOf(limit, numbers), override.stamps?.[limit.id])
}

/** Finds the numbers of a counter's tenant by the counter's name. */
export class VariantIndex {
  readonly #byLimit = new Map<number, PolicyOverrides>()

  constructor(policies: readonly RegionPolicy[]) {
    for (const policy of policies) {
      const overrides = policyOverrides(policy)
      if (overrides === null) continue
      for (const { id } of policy.limits) this.#byLimit.set(id, overrides)
    }
  }

  of(limit: RegionLimit, counterName: string): RegionLimit {
    const overrides = this.#byLimit.get(limit.id)
    if (overrides === undefined) return limit
    const value = valueInName(counterName, overrides.entry)
    const override = value === null ? undefined : overrides.byValue.get(value)
    return tenantLimit(overrides.policy, limit, override)
  }

  /** A hashed name hides its tenant. */
  isReadable(limitId: number, counterName: string): boolean {
    return !this.#byLimit.has(limitId) || valueInName(counterName, 0) !== null
  }
}
