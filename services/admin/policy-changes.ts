/** Changes of one policy. */
import { QuotaError } from '../../shared/errors.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import {
  findPolicy,
  type PolicyKey,
  resetUsage,
  touchPolicy,
} from '../../shared/postgres/policies.ts'
import { nameOf } from '../../shared/postgres/policy-batch.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import type { PolicyDocument } from '../../shared/protocol/policy.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { deletePolicies, type PutPolicy, putPolicies } from './policy-puts.ts'
import { checkPrecondition, type Precondition } from './preconditions.ts'

export interface PolicyChange {
  readonly key: PolicyKey
  readonly precondition: Precondition
}

export interface ChangedPolicy {
  readonly policy: StoredPolicy
  readonly outcome: PutPolicy['outcome']
}

/** Creates or replaces a policy, wholly or not at all. A document that changes nothing keeps the revision. */
export async function putPolicy(
  plane: PlaneChange,
  change: PolicyChange & { readonly document: PolicyDocument; readonly nowMs: number },
): Promise<ChangedPolicy> {
  const { document, precondition, nowMs } = change
  const puts = await putPolicies(plane, [{ document, precondition, at: '' }], nowMs)
  const policy = await requirePolicy(plane.trx, change.key)
  return { policy, outcome: puts[0]?.outcome ?? 'unchanged' }
}

export async function deletePolicy(plane: PlaneChange, change: PolicyChange): Promise<void> {
  const policy = await requirePolicy(plane.trx, change.key)
  checkPrecondition(change.precondition, nameOf(change.key), policy)
  await deletePolicies(plane, [policy])
}

/** Starts the counters of every limit of the policy, or of one, anew in all regions, as a new usage epoch (B145). */
export async function resetPolicy(
  plane: PlaneChange,
  change: PolicyChange & { readonly limit?: string | undefined },
): Promise<StoredPolicy> {
  const { trx } = plane
  const policy = await requirePolicy(trx, change.key)
  checkPrecondition(change.precondition, nameOf(change.key), policy)
  await resetUsage(trx, policy.id, idsToReset(policy, change.limit))
  await touchPolicy(trx, policy.id, plane.takeRevision())
  const reset = await requirePolicy(trx, change.key)
  const id = nameOf(change.key)
  const [before, after] = [usageEpochsOf(policy), usageEpochsOf(reset)]
  plane.record({
    action: 'policy.reset',
    objectKind: 'policy',
    objectId: id,
    before,
    after,
    documents: [{ kind: 'counters', id, before, after }],
  })
  return reset
}

export async function requirePolicy(db: Db, key: PolicyKey): Promise<StoredPolicy> {
  const policy = await findPolicy(db, key)
  if (policy !== null) return policy
  throw new QuotaError('QUOTA_POLICY_NOT_FOUND', `there is no policy ${nameOf(key)}`)
}

/** A candidate is reset with the limit that it stands beside. */
function idsToReset({ limits }: StoredPolicy, name: string | undefined): readonly number[] {
  const named = limits.filter((limit) => name === undefined || limit.name === name)
  if (named.length > 0 || name === undefined) return named.map(({ id }) => id)
  const names = limits.filter(({ candidateOf }) => candidateOf === null).map((one) => one.name)
  const message = `${name} is not a limit of this policy`
  throw invalidInput([{ field: 'limit', message, fix: `name one of ${names.join(', ')}` }])
}

function usageEpochsOf(policy: StoredPolicy): unknown {
  return { limits: policy.limits.map(({ name, usageEpoch }) => ({ name, usageEpoch })) }
}
