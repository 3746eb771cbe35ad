import type { InputProblem } from '../../shared/errors.ts'
import { findLabelledDomains } from '../../shared/postgres/domains.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import { findLabelled, nameOf } from '../../shared/postgres/policy-batch.ts'
import type { ApplyReply, ApplyRequest } from '../../shared/protocol/apply.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { type DomainPut, pruneDomains, putDomains } from './domain-changes.ts'
import { overrideOf } from './override-diffs.ts'
import type { PolicyPut } from './policy-comparison.ts'
import { deletePolicies, putPolicies } from './policy-puts.ts'
import { preconditionAt } from './preconditions.ts'

export interface ApplyChange {
  readonly request: ApplyRequest
  /** Domains that may be pruned, and whose policies; null: every one. */
  readonly domains: readonly string[] | null
  /** Wall clock, for overrides that have expired already. */
  readonly nowMs: number
}

/**
 * Brings policies and domains to what documents say and removes labelled ones that no document names; all of it or
 * nothing.
 */
export async function applyDocuments(
  plane: PlaneChange,
  { request, domains, nowMs }: ApplyChange,
): Promise<ApplyReply> {
  const { documents, prune } = request
  refuseTwins('documents', documents.map(nameOf))
  refuseTwins(
    'domains',
    request.domains.map(({ domain }) => domain),
  )
  const named = new Set(documents.map(nameOf))
  const labelled = prune === undefined ? [] : await findLabelled(plane.trx, prune.labels)
  const pruned = labelled.filter(
    (policy) => !named.has(nameOf(policy)) && (domains === null || domains.includes(policy.domain)),
  )
  await deletePolicies(plane, pruned)
  const gone = await pruneDomains(plane, await domainsToPrune(plane, { request, domains }))
  const described = await putDomains(plane, request.domains.map(domainPutOf))
  const put = await putPolicies(plane, documents.map(putOf), nowMs)
  return {
    revision: plane.isRaised ? plane.revision : null,
    domains: [...described, ...gone],
    items: [
      ...put.map((one) => ({ ...one, warnings: [...one.warnings] })),
      ...pruned.map(({ domain, name }) => ({
        domain,
        name,
        outcome: 'deleted' as const,
        revision: null,
        warnings: [],
      })),
    ],
  }
}

/** Labelled domains that no document speaks of, be it one of their own or a policy in them. */
async function domainsToPrune(
  { trx }: PlaneChange,
  { request, domains }: Pick<ApplyChange, 'request' | 'domains'>,
): Promise<readonly string[]> {
  if (request.prune === undefined) return []
  const named = new Set([...request.documents, ...request.domains].map(({ domain }) => domain))
  const labelled = await findLabelledDomains(trx, request.prune.labels)
  return labelled
    .map(({ domain }) => domain)
    .filter((domain) => !named.has(domain) && (domains === null || domains.includes(domain)))
}

function putOf(
  { ifMatch, overrides, ...document }: ApplyRequest['documents'][number],
  index: number,
): PolicyPut {
  return {
    document,
    precondition: preconditionAt(`documents[${index}].ifMatch`, ifMatch),
    at: `documents[${index}].`,
    ...(overrides !== undefined && {
      overrides: overrides.map(({ value, ...put }) => overrideOf(value, put)),
    }),
  }
}

function domainPutOf(
  { ifMatch, ...said }: ApplyRequest['domains'][number],
  index: number,
): DomainPut {
  const at = `domains[${index}].ifMatch`
  return { ...said, precondition: preconditionAt(at, ifMatch), at }
}

function refuseTwins(list: 'documents' | 'domains', names: readonly string[]): void {
  const first = new Map<string, number>()
  const field = list === 'documents' ? 'name' : 'domain'
  const problems = names.flatMap((name, index): readonly InputProblem[] => {
    const twin = first.get(name)
    if (twin === undefined) {
      first.set(name, index)
      return []
    }
    const message = `is the ${list === 'documents' ? 'policy' : 'domain'} of ${list}[${twin}] again`
    return [{ field: `${list}[${index}].${field}`, message, fix: 'keep one of the two' }]
  })
  if (problems.length > 0) throw invalidInput(problems)
}
