import { valueInName } from '../../../../shared/core/counter-id.ts'
import { ENTRIES_MAX } from '../../../../shared/core/descriptor.ts'
import type { PolicyReply } from '../../../../shared/protocol/admin-replies.ts'

/**
 * The value in the name of a key that tells tenants apart: of the entry that overrides go by, else of the first that
 * the policy leaves open. Empty where the name does not say, as that of a long descriptor.
 */
export function tenantOf(policy: Pick<PolicyReply, 'match' | 'overridesBy'>, key: string): string {
  const { match, overridesBy } = policy
  const entry = match.findIndex((one) =>
    overridesBy === undefined ? one.value === undefined : one.key === overridesBy,
  )
  return valueInName(key, Math.max(0, entry)) ?? ''
}

/** A key as the form that explains takes it; empty where its name does not say what it is of. */
export function descriptorOf(key: string): string {
  const names = key.split(',').slice(0, ENTRIES_MAX)
  const entries = names.map((entry, i) => `${entry.split('=')[0]}=${valueInName(key, i) ?? ''}`)
  return key.startsWith('#') ? '' : entries.join(',')
}
