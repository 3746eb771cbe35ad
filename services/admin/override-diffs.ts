/** What single tenants have, compared with what they are to have. */
import type { Override, OverrideRule } from '../../shared/core/overrides.ts'
import { isSameJson } from '../../shared/core/same-json.ts'
import type { InputProblem } from '../../shared/errors.ts'
import { sizesOfOverrides } from '../../shared/postgres/overrides.ts'
import type { Trx } from '../../shared/postgres/plane.ts'
import { deleteAllOverrides, writeAllOverrides } from '../../shared/postgres/policy-batch.ts'
import type { PolicyDocument } from '../../shared/protocol/policy.ts'
import {
  numbersProblems,
  OVERRIDE_FIXES,
  OVERRIDES_BYTES_MAX,
  OVERRIDES_MAX,
  type OverridePut,
} from '../../shared/protocol/policy-override.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'

export interface OverrideDiff {
  readonly set: readonly Override[]
  readonly removed: readonly string[]
  /** What those that are set or removed were. */
  readonly replaced: readonly Override[]
}

/** Where an override stands in what was sent, with the dot or whatever comes before its fields. */
export type OverridePlace = (override: Pick<Override, 'value'>) => string

/** The places of overrides that were sent as the list `list`. */
export function placesIn(list: string, overrides: readonly Override[]): OverridePlace {
  const indexes = new Map(overrides.map(({ value }, index) => [value, index]))
  return ({ value }) => {
    const index = indexes.get(value)
    // What was not sent is told by the tenant that has it.
    return index === undefined ? `overrides.${value}.` : `${list}[${index}].`
  }
}

/** What is to be written so that `before` becomes `wanted`, and what is wrong with what is new of it. */
export function changedOverrides(
  policy: OverriddenPolicy,
  overrides: {
    readonly before: readonly Override[]
    readonly wanted: readonly Override[]
    /** Wall clock, for expiries that have passed already. */
    readonly nowMs: number
    /** Where an override stands in what was sent, such as `set[2].`, for problems; not given: it is all of it. */
    readonly at?: OverridePlace | undefined
  },
): { readonly diff: OverrideDiff; readonly problems: readonly InputProblem[] } {
  const { before, wanted, nowMs, at = () => '' } = overrides
  const old = new Map(before.map((override) => [override.value, override]))
  const set = wanted.filter((override) => !isSameOverride(old.get(override.value), override))
  const values = new Set(wanted.map(({ value }) => value))
  const removed = before.filter(({ value }) => !values.has(value)).map(({ value }) => value)
  const changed = new Set([...set.map(({ value }) => value), ...removed])
  const replaced = before.filter(({ value }) => changed.has(value))
  const problems = set.flatMap((override) =>
    overrideProblems(policy, override, nowMs).map((problem) => ({
      ...problem,
      field: `${at(override)}${problem.field}`,
    })),
  )
  return { diff: { set, removed, replaced }, problems }
}

type PolicyDiff = OverrideDiff & {
  readonly policyId: number
  /** Where the policy stands in what was sent, such as `documents[3].`, for problems. */
  readonly at: string
}

export async function writeOverrideDiffs(trx: Trx, diffs: readonly PolicyDiff[]): Promise<void> {
  await deleteAllOverrides(
    trx,
    diffs.flatMap(({ policyId, removed }) => removed.map((value) => ({ policyId, value }))),
  )
  await writeAllOverrides(
    trx,
    diffs.flatMap(({ policyId, set }) => set.map((override) => ({ policyId, override }))),
  )
}

/** Refuses what no longer fits into a policy's message to the regions. */
export async function refuseFull(trx: Trx, diffs: readonly PolicyDiff[]): Promise<void> {
  const grown = new Map(
    diffs.filter(({ set }) => set.length > 0).map(({ policyId, at }) => [policyId, at]),
  )
  for (const { policyId, count, bytes } of await sizesOfOverrides(trx, [...grown.keys()])) {
    if (count <= OVERRIDES_MAX && bytes <= OVERRIDES_BYTES_MAX) continue
    const message = `are ${count} of ${bytes} bytes, and at most ${OVERRIDES_MAX} of ${OVERRIDES_BYTES_MAX} bytes are allowed`
    const fix = 'remove those that are no longer needed, or put what many tenants share into tiers'
    throw invalidInput([{ field: `${grown.get(policyId) ?? ''}overrides`, message, fix }])
  }
}

export function isSameOverride(one: Override | undefined, other: Override): boolean {
  return isSameJson(one, other)
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

type OverriddenPolicy = Pick<PolicyDocument, 'unlimited' | 'mode'> & {
  readonly tiers?: Readonly<Record<string, unknown>>
  readonly limits: Parameters<typeof numbersProblems>[1]
}

export function overrideProblems(
  policy: OverriddenPolicy,
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
