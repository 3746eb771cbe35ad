/** What a policy is to be beside what it is: what differs, and what is wrong with it. */
import type { Override } from '../../shared/core/overrides.ts'
import { isSameJson } from '../../shared/core/same-json.ts'
import type { InputProblem } from '../../shared/errors.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import type { StoredRegion } from '../../shared/postgres/regions.ts'
import type { PolicyDocument } from '../../shared/protocol/policy.ts'
import { OVERRIDE_FIXES } from '../../shared/protocol/policy-override.ts'
import { reviewPolicy } from '../../shared/protocol/policy-warnings.ts'
import {
  changedOverrides,
  type OverrideDiff,
  type OverridePlace,
  placesIn,
} from './override-diffs.ts'
import type { Precondition } from './preconditions.ts'
import { documentOf } from './views/policy.ts'

export interface PolicyPut {
  readonly document: PolicyDocument
  /** Null: whether there is such a policy or not. */
  readonly precondition: Precondition | null
  /** Where the document stands in the request, such as `documents[3].`, for problems. */
  readonly at: string
  /** All that the policy is to have; absent: those that it has. */
  readonly overrides?: readonly Override[]
  /** Where each of those stands in the document; not given: in its list of overrides. */
  readonly overrideAt?: OverridePlace
}

/** A put beside what there is. */
export interface Comparison extends PolicyPut {
  readonly before: StoredPolicy | null
  /** What the stored policy says; null for one that is created. */
  readonly old: PolicyDocument | null
  readonly isDocumentChanged: boolean
  readonly overrideDiff: OverrideDiff
  readonly warnings: readonly InputProblem[]
}

/** Compares a put with what there is; `found` is what is wrong with it. */
export function compare(
  put: PolicyPut,
  before: StoredPolicy | null,
  regions: readonly StoredRegion[],
  nowMs: number,
): Comparison & { readonly found: readonly InputProblem[] } {
  const { document, at } = put
  const members = regions.map(({ id }) => id)
  const { warnings, refusals } = reviewPolicy(document, members)
  const wanted = put.overrides ?? before?.overrides ?? []
  const overrideAt = put.overrideAt ?? placesIn('overrides', wanted)
  const overrides = changedOverrides(document, {
    before: before?.overrides ?? [],
    wanted,
    nowMs,
    at: overrideAt,
  })
  const kept = wanted.filter((override) => !overrides.diff.set.includes(override))
  const found = [
    ...unknownRegions(members, document),
    ...refusals,
    ...twinOverrides(put.overrides ?? []),
    ...missingTiers(kept, document, put.overrides && overrideAt),
    ...overrides.problems,
  ]
  const old = before === null ? null : documentOf(before)
  return {
    ...put,
    before,
    old,
    isDocumentChanged: old === null || !isSameDocument(old, document),
    overrideDiff: overrides.diff,
    warnings,
    found: found.map((one) => located(one, at)),
  }
}

function located(problem: InputProblem, at: string): InputProblem {
  return { ...problem, field: `${at}${problem.field}` }
}

export function isChanged({ isDocumentChanged, overrideDiff }: Comparison): boolean {
  return isDocumentChanged || overrideDiff.set.length + overrideDiff.removed.length > 0
}

/** True when both say the same, in whatever order of fields: Postgres reorders those of a split. */
function isSameDocument(one: PolicyDocument, other: PolicyDocument): boolean {
  return isSameJson({ labels: {}, ...one }, { labels: {}, ...other })
}

/** True where nothing is matched by it yet as well. */
export function hasOtherMatch({
  before,
  document,
}: Pick<Comparison, 'before' | 'document'>): boolean {
  const [old, now] = [before?.match ?? [], document.match]
  return (
    old.length !== now.length ||
    now.some(
      ({ key, value, shared = false }, index) =>
        key !== old[index]?.key ||
        value !== old[index]?.value ||
        shared !== (old[index]?.shared ?? false),
    )
  )
}

/** Which of two for one tenant is meant, nobody can tell. */
function twinOverrides(overrides: readonly Override[]): readonly InputProblem[] {
  const first = new Map<string, number>()
  return overrides.flatMap(({ value }, index) => {
    const twin = first.get(value)
    if (twin === undefined) first.set(value, index)
    const message = `is the value of overrides[${twin}] again`
    const field = `overrides[${index}].value`
    return twin === undefined ? [] : [{ field, message, fix: 'keep one of the two' }]
  })
}

/**
 * A tenant on a tier that is gone would silently have the policy's own numbers. Of overrides that stay as they are: told
 * where they stand (`at`), or where nobody sent them, as a fault of the tiers.
 */
function missingTiers(
  overrides: readonly Override[],
  { tiers = {} }: PolicyDocument,
  at: OverridePlace | undefined,
): readonly InputProblem[] {
  return overrides.flatMap(({ value, rule }) => {
    if (rule.kind !== 'tier' || Object.hasOwn(tiers, rule.tier)) return []
    if (at !== undefined) {
      const message = `${rule.tier} is not a tier of this policy`
      return [{ field: `${at({ value })}tier`, message, fix: OVERRIDE_FIXES['tier'] ?? '' }]
    }
    const message = `has no ${rule.tier} any more, and the override of ${value} names it`
    const fix = 'keep the tier, or change the overrides that name it first'
    return [{ field: 'tiers', message, fix }]
  })
}

function unknownRegions(
  regions: readonly string[],
  document: PolicyDocument,
): readonly InputProblem[] {
  return document.limits.flatMap((limit, index) =>
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
}
