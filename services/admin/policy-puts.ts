/**
 * Brings any number of policies to what their documents say, as one change of the plane: all of them or none.
 *
 * A limit keeps its id, and with it its counters, as long as a limit of its name and algorithm stays in the
 * policy. Another algorithm counts otherwise, so it starts under a new id with nothing spent.
 */
import { type InputProblem, QuotaError } from '../../shared/errors.ts'
import type { DocumentChange, PlaneChange } from '../../shared/postgres/plane-change.ts'
import {
  findSameMatches,
  insertPolicies,
  nameOf,
  parkMatches,
  removePolicies,
  updatePolicies,
} from '../../shared/postgres/policy-batch.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import { listRegions, type StoredRegion } from '../../shared/postgres/regions.ts'
import type { PolicyDocument } from '../../shared/protocol/policy.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { type LimitPlan, planLimits, writeLimits } from './limit-changes.ts'
import { refuseFull, writeOverrideDiffs } from './override-diffs.ts'
import { recordOverrides } from './override-records.ts'
import {
  type Comparison,
  compare,
  hasOtherMatch,
  isChanged,
  type PolicyPut,
} from './policy-comparison.ts'
import { checkPrecondition } from './preconditions.ts'
import { attendanceOf } from './region-moves.ts'
import { overrideIdOf, overrideReplyOf } from './views/override.ts'
import { documentOf } from './views/policy.ts'
import { whileWaiting } from './while-waiting.ts'

export interface PutPolicy {
  readonly domain: string
  readonly name: string
  readonly outcome: 'created' | 'updated' | 'unchanged'
  readonly revision: number
  readonly warnings: readonly InputProblem[]
}

/** A document that changes nothing keeps its revision. Throws what is wrong with any of them, and then none is put. */
export async function putPolicies(
  plane: PlaneChange,
  puts: readonly PolicyPut[],
  nowMs: number,
): Promise<readonly PutPolicy[]> {
  const { trx } = plane
  const stored = await plane.findPolicies(puts.map(({ document }) => document))
  const regions = await listRegions(trx)
  const compared = puts.map((put) => {
    const before = stored.get(nameOf(put.document)) ?? null
    if (put.precondition !== null) {
      const field = put.at === '' ? undefined : `${put.at}ifMatch`
      checkPrecondition(put.precondition, nameOf(put.document), before, field)
    }
    return compare(put, before, regions, nowMs)
  })
  const problems = compared.flatMap(({ found }) => found)
  if (problems.length > 0) throw invalidInput(problems)
  const changed = compared.filter((one) => isChanged(one))
  await refuseSameMatches(plane, changed)
  const revisions = new Map(changed.map(({ document }) => [document, plane.takeRevision()]))
  const plans = await whileWaiting(write(plane, changed, { revisions, regions }), changed, (one) =>
    record(plane, one),
  )
  return compared.map((one) => {
    const { domain, name } = one.document
    const revision = revisions.get(one.document)
    const outcome = one.before === null ? 'created' : 'updated'
    return {
      domain,
      name,
      outcome: revision === undefined ? 'unchanged' : outcome,
      revision: revision ?? one.before?.revision ?? 0,
      warnings: [...one.warnings, ...restartWarnings(one, plans.get(one.document))],
    }
  })
}

/** Removes policies with their limits and overrides. */
export async function deletePolicies(
  plane: PlaneChange,
  policies: readonly StoredPolicy[],
): Promise<void> {
  const removed = policies.map((policy) => ({ policy, revision: plane.takeRevision() }))
  await removePolicies(plane.trx, removed)
  for (const policy of policies) {
    const id = nameOf(policy)
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
}

async function write(
  plane: PlaneChange,
  changed: readonly Comparison[],
  how: {
    readonly revisions: ReadonlyMap<PolicyDocument, number>
    readonly regions: readonly StoredRegion[]
  },
): Promise<ReadonlyMap<PolicyDocument, LimitPlan>> {
  const { trx } = plane
  const valuesOf = ({ document }: Comparison) => ({
    ...document,
    relaxedPercent: document.relaxedPercent ?? null,
    labels: document.labels ?? {},
    revision: how.revisions.get(document) ?? 0,
  })
  const known = changed.flatMap((one) =>
    one.before === null ? [] : [{ ...one, before: one.before, id: one.before.id }],
  )
  const moved = known.filter(hasOtherMatch)
  await parkMatches(
    trx,
    moved.map(({ id }) => id),
  )
  const attendance = attendanceOf(how.regions)
  const plans = new Map<PolicyDocument, LimitPlan>()
  const planFor = ({ document, before, at }: Comparison, policyId: number): void => {
    const [limits, modeBefore] = [before?.limits ?? [], before?.mode ?? null]
    const changes = { policyId, before: limits, modeBefore, document, attendance, at }
    plans.set(document, planLimits(changes))
  }
  const updating = updatePolicies(
    trx,
    known.map((one) => ({ id: one.id, values: valuesOf(one) })),
  )
  await whileWaiting(updating, known, (one) => planFor(one, one.id))
  const created = changed.filter(({ before }) => before === null)
  const ids = await insertPolicies(trx, created.map(valuesOf))
  const idOf = new Map(known.map(({ document, id }) => [document, id]))
  for (const [index, one] of created.entries()) {
    idOf.set(one.document, ids[index] ?? 0)
    planFor(one, ids[index] ?? 0)
  }
  await writeLimits(
    trx,
    changed.flatMap(({ document }) => plans.get(document) ?? []),
  )
  const diffs = changed.map((one) => ({
    ...one.overrideDiff,
    at: one.at,
    policyId: idOf.get(one.document) ?? 0,
  }))
  await writeOverrideDiffs(trx, diffs)
  await refuseFull(trx, diffs)
  return plans
}

function record(plane: PlaneChange, one: Comparison): void {
  const { document, old, isDocumentChanged, overrideDiff } = one
  const id = nameOf(document)
  const head = { objectKind: 'policy', objectId: id } as const
  if (isDocumentChanged) {
    const action = old === null ? 'policy.create' : 'policy.update'
    plane.record({ ...head, action, before: old, after: document })
  }
  const { set, removed } = overrideDiff
  if (set.length + removed.length > 0) recordOverrides(plane, document, overrideDiff)
}

function restartWarnings(
  { document }: Comparison,
  plan: LimitPlan | undefined,
): readonly InputProblem[] {
  return (plan?.restarted ?? []).map((name) => ({
    field: `limits[${document.limits.findIndex((limit) => limit.name === name)}]`,
    message: `${name} counts otherwise from now on, so its counters start with nothing spent`,
    fix: 'keep its algorithm, its shards and the way it is held, or give it another name to say that it is another limit',
  }))
}

/** Two policies with one match would both be the most specific for the same checks. */
async function refuseSameMatches(
  plane: PlaneChange,
  changed: readonly Comparison[],
): Promise<void> {
  // Where a match stays as it is, the schema holds that no other policy has it.
  const moved = changed.filter(hasOtherMatch)
  if (moved.length === 0) return
  const put = new Map(changed.map((one) => [nameOf(one.document), one]))
  const stored = await findSameMatches(
    plane.trx,
    moved.map(({ document }) => document),
  )
  const problems = stored
    // What is put as well has its new match by then; whether that is another's is seen below.
    .filter(({ policy }) => !put.has(nameOf(policy)))
    .flatMap(({ policy, like }) => {
      const one = put.get(nameOf({ ...policy, name: like }))
      return one === undefined ? [] : [sameMatch(one, nameOf(policy))]
    })
  const first = new Map<string, Comparison>()
  for (const one of changed) {
    const { domain, match } = one.document
    const entries = match.map(({ key, value }) => [key, value ?? null])
    const what = JSON.stringify([domain, entries])
    const twin = first.get(what)
    if (twin === undefined) first.set(what, one)
    else problems.push(sameMatch(one, nameOf(twin.document)))
  }
  if (problems.length === 0) return
  const said = problems.map(({ field, message }) => `${field} ${message}`).join('; ')
  throw new QuotaError('QUOTA_ALREADY_EXISTS', said, { problems })
}

function sameMatch({ at }: Comparison, other: string): InputProblem {
  const [, name] = other.split('/')
  return {
    field: `${at}match`,
    message: `is also the match of the policy ${other}`,
    fix: `change one of the two, or add the limits to ${name}`,
  }
}
