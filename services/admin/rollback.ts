import type { Override } from '../../shared/core/overrides.ts'
import { type InputProblem, QuotaError } from '../../shared/errors.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import { nameOf } from '../../shared/postgres/policy-batch.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import {
  countOthersBetween,
  type DocumentStates,
  documentsBetween,
  findRevision,
} from '../../shared/postgres/revisions.ts'
import { plainWords } from '../../shared/protocol/plain-words.ts'
import { POLICY_FIXES, policyDocumentSchema } from '../../shared/protocol/policy.ts'
import { overridePutSchema, tenantValueSchema } from '../../shared/protocol/policy-override.ts'
import type { RollbackReply } from '../../shared/protocol/revisions.ts'
import { invalidInput, problemsOf } from '../../shared/protocol/zod-problems.ts'
import { domainsToRestore, restoreDomains } from './domain-changes.ts'
import { overrideOf } from './override-diffs.ts'
import type { PolicyPut } from './policy-comparison.ts'
import { deletePolicies, type PutPolicy, putPolicies } from './policy-puts.ts'
import { checkPrecondition, type Precondition } from './preconditions.ts'
import { documentOf } from './views/policy.ts'

export interface Rollback {
  /** Any number that the revision took. */
  readonly to: number
  /** State of the plane that the rollback rests on; null: whatever it is. */
  readonly precondition: Precondition | null
  readonly nowMs: number
}

const overrideSchema = overridePutSchema.safeExtend({ value: tenantValueSchema })

/**
 * Brings policies, overrides and what is said of domains back to what they were at a revision, as a new one; all of
 * them or none.
 *
 * Regions, base splits and counters stay as they are. A policy that was removed since comes back under new ids, so
 * that its counters start with nothing spent; ids of limits are never used again.
 */
export async function rollBack(
  plane: PlaneChange,
  { to, precondition, nowMs }: Rollback,
): Promise<RollbackReply> {
  const { trx } = plane
  const target = await findRevision(trx, to)
  if (target === null) throw revisionNotFound(to)
  const present = plane.revision
  if (precondition !== null) checkPrecondition(precondition, 'the plane', { revision: present })
  const span = { from: target.revision, to: present }
  const states = await documentsBetween(trx, span)
  const touched = new Map<string, Touched>()
  for (const state of states) if (state.kind !== 'domain') touch(touched, state)
  const names = [...touched.keys()].map((name) => {
    const [domain = '', policy = ''] = name.split('/')
    return { domain, name: policy }
  })
  const stored = await plane.findPolicies(names)
  const removed = [...touched].flatMap(([name, { document }]) => {
    const policy = stored.get(name)
    return document === null && policy !== undefined ? [policy] : []
  })
  const expired: string[] = []
  const puts = [...touched].flatMap(([name, what]) =>
    putOf(name, what, { stored: stored.get(name), nowMs, expired }),
  )
  const domainsBefore = await domainsToRestore(plane, states)
  await deletePolicies(plane, removed)
  const put = await putPolicies(plane, puts, nowMs)
  const domains = await restoreDomains(plane, states, domainsBefore)
  return {
    revision: plane.isRaised ? plane.revision : null,
    restored: target.revision,
    domains: [...domains],
    expired,
    kept: await countOthersBetween(trx, span),
    items: [
      ...put.map((one) => ({ ...one, warnings: [...one.warnings, ...renewalWarnings(one)] })),
      ...removed.map(({ domain, name }) => ({
        domain,
        name,
        outcome: 'deleted' as const,
        revision: null,
        warnings: [],
      })),
    ],
  }
}

export function revisionNotFound(number: number): QuotaError {
  return new QuotaError(
    'QUOTA_REVISION_NOT_FOUND',
    `there is no revision ${number} in the history: GET /v1/revisions lists those that there are`,
  )
}

/** What a policy and its overrides were; absent: it did not change. */
interface Touched {
  document?: unknown
  readonly overrides: Map<string, unknown>
}

function touch(touched: Map<string, Touched>, { kind, id, before }: DocumentStates): void {
  const space = kind === 'override' ? id.indexOf(' ') : id.length
  const name = id.slice(0, space)
  const what = touched.get(name) ?? { overrides: new Map<string, unknown>() }
  if (kind === 'policy') what.document = before
  else what.overrides.set(id.slice(space + 1), before)
  touched.set(name, what)
}

interface Present {
  readonly stored: StoredPolicy | undefined
  readonly nowMs: number
  /** Collects the overrides that have expired since. */
  readonly expired: string[]
}

function putOf(name: string, touched: Touched, present: Present): readonly PolicyPut[] {
  const { stored } = present
  const unchanged = stored === undefined ? null : documentOf(stored)
  const wanted = touched.document === undefined ? unchanged : touched.document
  if (wanted === null) return []
  // What an older version wrote lacks the defaults of later fields, and may break later rules.
  const parsed = policyDocumentSchema.safeParse(wanted, { error: plainWords })
  if (!parsed.success) {
    throw invalidInput(problemsOf(parsed.error, POLICY_FIXES).map((one) => located(one, name)))
  }
  const overrides = overridesOf(name, touched, present)
  const put = { document: parsed.data, precondition: null, at: `${name}.`, overrides }
  // No list was sent: each is told by the tenant that has it.
  return [{ ...put, overrideAt: ({ value }) => `overrides.${value}.` }]
}

function overridesOf(
  name: string,
  { overrides }: Touched,
  { stored, nowMs, expired }: Present,
): readonly Override[] {
  const all = new Map((stored?.overrides ?? []).map((override) => [override.value, override]))
  for (const [value, before] of overrides) {
    const override = before === null ? null : overrideFrom(before)
    const isExpired = (override?.expiresAtMs ?? Number.POSITIVE_INFINITY) <= nowMs
    if (isExpired) expired.push(`${name} ${value}`)
    if (override === null || isExpired) all.delete(value)
    else all.set(value, override)
  }
  return [...all.values()]
}

function overrideFrom(stored: unknown): Override {
  const { value, ...put } = overrideSchema.parse(stored)
  return overrideOf(value, put)
}

function located(problem: InputProblem, name: string): InputProblem {
  return { ...problem, field: `${name}.${problem.field}` }
}

function renewalWarnings({ domain, name, outcome }: PutPolicy): readonly InputProblem[] {
  if (outcome !== 'created') return []
  const message =
    'was removed since, so its limits have new ids and their counters start with nothing spent'
  return [{ field: nameOf({ domain, name }), message }]
}
