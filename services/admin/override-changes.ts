/** Changes of what single tenants have; each is a revision of their policy with an audit row. */
import type { Override } from '../../shared/core/overrides.ts'
import { QuotaError } from '../../shared/errors.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import { touchPolicy } from '../../shared/postgres/policies.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import {
  changedOverrides,
  type OverridePlace,
  refuseFull,
  writeOverrideDiffs,
} from './override-diffs.ts'
import { recordOverrides } from './override-records.ts'
import { type PolicyChange, requirePolicy } from './policy-changes.ts'
import { checkPrecondition } from './preconditions.ts'

export interface OverridesChange extends PolicyChange {
  readonly set: readonly Override[]
  readonly remove: readonly string[]
  /** Where each of `set` stands in what was sent; not given: it is all of it. */
  readonly at?: OverridePlace
  /** Wall clock, for expiries that have passed already. */
  readonly nowMs: number
}

/**
 * Sets and removes overrides of one policy, all or none. Those that stay as they are keep the revision.
 *
 * Throws QUOTA_INVALID_INPUT for what the policy cannot have, and QUOTA_POLICY_NOT_FOUND when a removed value has no
 * override.
 */
export async function changeOverrides(
  plane: PlaneChange,
  change: OverridesChange,
): Promise<StoredPolicy> {
  const { trx } = plane
  const policy = await requirePolicy(trx, change.key)
  checkPrecondition(change.precondition, `${policy.domain}/${policy.name}`, policy)
  const before = policy.overrides ?? []
  // Of one value that comes twice the later counts.
  const wanted = new Map([...before, ...change.set].map((one) => [one.value, one]))
  for (const value of new Set(change.remove)) {
    if (wanted.delete(value)) continue
    throw new QuotaError('QUOTA_POLICY_NOT_FOUND', 'there is no override of this value')
  }
  const overrides = { before, wanted: [...wanted.values()], nowMs: change.nowMs, at: change.at }
  const { diff, problems } = changedOverrides(policy, overrides)
  if (problems.length > 0) throw invalidInput(problems)
  if (diff.set.length + diff.removed.length === 0) return policy
  const diffs = [{ ...diff, policyId: policy.id, at: '' }]
  await writeOverrideDiffs(trx, diffs)
  await refuseFull(trx, diffs)
  await touchPolicy(trx, policy.id, plane.takeRevision())
  recordOverrides(plane, policy, diff)
  return await requirePolicy(trx, change.key)
}
