/** Changes of what single tenants have; each is a revision of their policy with an audit row. */
import type { Override, OverrideRule } from '../../shared/core/overrides.ts'
import { type InputProblem, QuotaError } from '../../shared/errors.ts'
import {
  deleteOverrides,
  sizeOfOverrides,
  writeOverrides,
} from '../../shared/postgres/overrides.ts'
import type { Trx } from '../../shared/postgres/plane.ts'
import type { DocumentChange, PlaneChange } from '../../shared/postgres/plane-change.ts'
import { touchPolicy } from '../../shared/postgres/policies.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import {
  numbersProblems,
  OVERRIDE_FIXES,
  OVERRIDES_BYTES_MAX,
  OVERRIDES_MAX,
  type OverridePut,
} from '../../shared/protocol/policy-override.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { type PolicyChange, requirePolicy } from './policy-changes.ts'
import { checkPrecondition } from './preconditions.ts'
import { overrideIdOf, overrideReplyOf } from './views/override.ts'

export interface OverridesChange extends PolicyChange {
  readonly set: readonly Override[]
  readonly remove: readonly string[]
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
  const name = `${policy.domain}/${policy.name}`
  checkPrecondition(change.precondition, name, policy)
  // Of one value that comes twice the later counts.
  const set = [...new Map(change.set.map((one) => [one.value, one])).values()]
  const problems = set.flatMap((override) => problemsOf(policy, override, change.nowMs))
  if (problems.length > 0) throw invalidInput(problems)
  const before = policy.overrides ?? []
  if (change.remove.length === 0 && set.every((one) => isKnown(before, one))) return policy
  await writeOverrides(trx, policy.id, set)
  await requireRemoved(trx, policy.id, change.remove)
  await requireRoom(trx, policy.id)
  await touchPolicy(trx, policy.id, plane.takeRevision())
  const changed = await requirePolicy(trx, change.key)
  const values = new Set([...set.map(({ value }) => value), ...change.remove])
  plane.record({
    action: 'policy.override',
    objectKind: 'policy',
    objectId: name,
    before: before.filter(({ value }) => values.has(value)).map(overrideReplyOf),
    after: set.map(overrideReplyOf),
    documents: documentsOf(policy, changed, values),
  })
  return changed
}

function documentsOf(
  before: StoredPolicy,
  after: StoredPolicy,
  values: ReadonlySet<string>,
): readonly DocumentChange[] {
  const byValue = ({ overrides = [] }: StoredPolicy) =>
    new Map(overrides.map((override) => [override.value, overrideReplyOf(override)]))
  const [old, now] = [byValue(before), byValue(after)]
  return [...values].map((value) => ({
    kind: 'override',
    id: overrideIdOf(before, value),
    before: old.get(value) ?? null,
    after: now.get(value) ?? null,
  }))
}

/** The override that an operator put. */
export function overrideOf(value: string, put: OverridePut): Override {
  const { expiresAt } = put
  return {
    value,
    rule: ruleOf(put),
    ...(expiresAt !== undefined && { expiresAtMs: Date.parse(expiresAt) }),
  }
}

function ruleOf({ tier, limits, deny }: OverridePut): OverrideRule {
  if (tier !== undefined) return { kind: 'tier', tier }
  if (limits !== undefined) return { kind: 'numbers', limits }
  return { kind: deny === true ? 'deny' : 'unlimited' }
}

function problemsOf(
  policy: StoredPolicy,
  { rule, expiresAtMs }: Override,
  nowMs: number,
): readonly InputProblem[] {
  const problems: InputProblem[] = []
  const refuse = (field: string, message: string, fix: keyof typeof OVERRIDE_FIXES): void => {
    problems.push({ field, message, fix: OVERRIDE_FIXES[fix] ?? '' })
  }
  if (policy.unlimited)
    refuse('rule', 'has nothing to stand in place of: the policy is unlimited', 'rule')
  if (rule.kind === 'tier' && !Object.hasOwn(policy.tiers ?? {}, rule.tier)) {
    refuse('tier', `${rule.tier} is not a tier of this policy`, 'tier')
  }
  if (rule.kind === 'numbers') {
    for (const { path, message } of numbersProblems(rule.limits, policy.limits, policy.mode)) {
      refuse(['limits', ...path].join('.'), message, 'rule')
    }
  }
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs) {
    refuse('expiresAt', 'has passed already', 'expiresAt')
  }
  return problems
}

function isKnown(before: readonly Override[], wanted: Override): boolean {
  const old = before.find(({ value }) => value === wanted.value)
  return (
    old !== undefined &&
    JSON.stringify(overrideReplyOf(old)) === JSON.stringify(overrideReplyOf(wanted))
  )
}

async function requireRemoved(
  trx: Trx,
  policyId: number,
  values: readonly string[],
): Promise<void> {
  if ((await deleteOverrides(trx, policyId, values)) === new Set(values).size) return
  throw new QuotaError('QUOTA_POLICY_NOT_FOUND', 'there is no override of this value')
}

async function requireRoom(trx: Trx, policyId: number): Promise<void> {
  const { count, bytes } = await sizeOfOverrides(trx, policyId)
  if (count <= OVERRIDES_MAX && bytes <= OVERRIDES_BYTES_MAX) return
  const message = `are ${count} of ${bytes} bytes, and at most ${OVERRIDES_MAX} of ${OVERRIDES_BYTES_MAX} bytes are allowed`
  const fix = 'remove those that are no longer needed, or put what many tenants share into tiers'
  throw invalidInput([{ field: 'overrides', message, fix }])
}
