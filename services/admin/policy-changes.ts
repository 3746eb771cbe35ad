import { QuotaError } from '../../shared/errors.ts'
import type { Db, Trx } from '../../shared/postgres/plane.ts'
import type { DocumentChange, PlaneChange } from '../../shared/postgres/plane-change.ts'
import {
  deletePolicy as deleteStoredPolicy,
  findPolicy,
  findPolicyByMatch,
  insertPolicy,
  type PolicyKey,
  resetUsage,
  touchPolicy,
  updatePolicy,
} from '../../shared/postgres/policies.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import { listRegions } from '../../shared/postgres/regions.ts'
import type { PolicyDocument } from '../../shared/protocol/policy.ts'
import { reviewPolicy } from '../../shared/protocol/policy-warnings.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { writeLimits } from './limit-changes.ts'
import { checkPrecondition, type Precondition } from './preconditions.ts'
import { attendanceOf } from './region-moves.ts'
import { overrideIdOf, overrideReplyOf } from './views/override.ts'
import { documentOf } from './views/policy.ts'

export interface PolicyChange {
  readonly key: PolicyKey
  readonly precondition: Precondition
}

export interface ChangedPolicy {
  readonly policy: StoredPolicy
  readonly outcome: 'created' | 'updated' | 'unchanged'
}

/**
 * Creates or replaces a policy, wholly or not at all. A document that changes nothing keeps the revision.
 *
 * A limit keeps its id, and with it its counters, as long as a limit of its name and algorithm stays in the
 * policy. Another algorithm counts otherwise, so it starts under a new id with nothing spent.
 */
export async function putPolicy(
  plane: PlaneChange,
  change: PolicyChange & { readonly document: PolicyDocument },
): Promise<ChangedPolicy> {
  const { key, document } = change
  const { trx } = plane
  const before = await findPolicy(trx, key)
  checkPrecondition(change.precondition, nameOf(key), before)
  const stored = await listRegions(trx)
  const members = stored.map((region) => region.id)
  refuseUnknownRegions(members, document)
  refuseSmallLimits(members, document)
  refuseMissingTiers(before, document)
  if (before !== null && isUnchanged(before, document)) {
    return { policy: before, outcome: 'unchanged' }
  }
  await refuseSameMatch(trx, document)
  const relaxedPercent = document.relaxedPercent ?? null
  const values = { ...document, relaxedPercent, revision: plane.takeRevision() }
  const id = before?.id ?? (await insertPolicy(trx, values))
  if (before !== null) await updatePolicy(trx, id, values)
  await writeLimits(trx, {
    policyId: id,
    before: before?.limits ?? [],
    modeBefore: before?.mode ?? null,
    document,
    attendance: attendanceOf(stored),
  })
  const policy = await requirePolicy(trx, key)
  plane.record({
    action: before === null ? 'policy.create' : 'policy.update',
    objectKind: 'policy',
    objectId: nameOf(key),
    before: before === null ? null : documentOf(before),
    after: documentOf(policy),
  })
  return { policy, outcome: before === null ? 'created' : 'updated' }
}

export async function deletePolicy(plane: PlaneChange, change: PolicyChange): Promise<void> {
  const { trx } = plane
  const policy = await requirePolicy(trx, change.key)
  checkPrecondition(change.precondition, nameOf(change.key), policy)
  await deleteStoredPolicy(trx, policy, plane.takeRevision())
  const id = nameOf(change.key)
  const before = documentOf(policy)
  const overrides = (policy.overrides ?? []).map(
    (override): DocumentChange => ({
      kind: 'override',
      id: overrideIdOf(policy, override.value),
      before: overrideReplyOf(override),
      after: null,
    }),
  )
  plane.record({
    action: 'policy.delete',
    objectKind: 'policy',
    objectId: id,
    before,
    after: null,
    documents: [...overrides, { kind: 'policy', id, before, after: null }],
  })
}

/** Starts the counters of every limit of the policy anew in all regions, as a new usage epoch (B145). */
export async function resetPolicy(plane: PlaneChange, change: PolicyChange): Promise<StoredPolicy> {
  const { trx } = plane
  const policy = await requirePolicy(trx, change.key)
  checkPrecondition(change.precondition, nameOf(change.key), policy)
  await resetUsage(trx, policy.id)
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

function usageEpochsOf(policy: StoredPolicy): unknown {
  return { limits: policy.limits.map(({ name, usageEpoch }) => ({ name, usageEpoch })) }
}

function nameOf(key: PolicyKey): string {
  return `${key.domain}/${key.name}`
}

function refuseSmallLimits(members: readonly string[], document: PolicyDocument): void {
  const { refusals } = reviewPolicy(document, members)
  if (refusals.length > 0) throw invalidInput(refusals)
}

/** A tenant on a tier that is gone would silently have the policy's own numbers. */
function refuseMissingTiers(before: StoredPolicy | null, { tiers = {} }: PolicyDocument): void {
  for (const { value, rule } of before?.overrides ?? []) {
    if (rule.kind !== 'tier' || Object.hasOwn(tiers, rule.tier)) continue
    const message = `has no ${rule.tier} any more, and the override of ${value} names it`
    const fix = 'keep the tier, or change the overrides that name it first'
    throw invalidInput([{ field: 'tiers', message, fix }])
  }
}

function refuseUnknownRegions(regions: readonly string[], document: PolicyDocument): void {
  const problems = document.limits.flatMap((limit, index) =>
    Object.keys(limit.split)
      .filter((region) => !regions.includes(region))
      .map((region) => ({
        field: `limits[${index}].split.${region}`,
        message: `${region} is not a registered region`,
        fix:
          regions.length === 0
            ? `register it first: PUT /v1/regions/${region}`
            : `use ${regions.join(', ')}, or register it first: PUT /v1/regions/${region}`,
      })),
  )
  if (problems.length > 0) throw invalidInput(problems)
}

/** Two policies with one match would both be the most specific for the same checks. */
async function refuseSameMatch(trx: Trx, document: PolicyDocument): Promise<void> {
  const other = await findPolicyByMatch(trx, document.domain, document.match)
  if (other === null || other === document.name) return
  const message = `is also the match of the policy ${document.domain}/${other}`
  throw new QuotaError('QUOTA_ALREADY_EXISTS', `match ${message}`, {
    problems: [
      { field: 'match', message, fix: `change one of the two, or add the limits to ${other}` },
    ],
  })
}

/** Both documents are built in the same order of fields, the split apart, which Postgres reorders. */
function isUnchanged(stored: StoredPolicy, document: PolicyDocument): boolean {
  return canonical(documentOf(stored)) === canonical(document)
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}
