/** Changes of what is said of domains. A domain itself comes with its first policy, or with its description. */
import { isDeepStrictEqual } from 'node:util'
import { type InputProblem, QuotaError } from '../../shared/errors.ts'
import {
  type DomainValues,
  findDomains,
  firstPoliciesOf,
  removeDomains,
  type StoredDomain,
  writeDomains,
} from '../../shared/postgres/domains.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import type { PlaneChange } from '../../shared/postgres/plane-change.ts'
import type { DocumentStates } from '../../shared/postgres/revisions.ts'
import { domainDocumentSchema } from '../../shared/protocol/domains.ts'
import { checkPrecondition, type Precondition } from './preconditions.ts'

/** Policies that a refusal names; the first few show what is in the way. */
const POLICIES_NAMED_MAX = 5

export interface DomainPut extends DomainValues {
  /** Null: whether there is such a domain or not. */
  readonly precondition: Precondition | null
  /** Where the precondition stands in what was sent, for problems; not given: in a header. */
  readonly at?: string
}

export interface ChangedDomain {
  readonly domain: string
  readonly outcome: 'created' | 'updated' | 'unchanged' | 'deleted'
  /** Null: deleted. */
  readonly revision: number | null
}

/** Describes domains, those anew that there are not; one of which nothing else is said keeps its revision. */
export async function putDomains(
  plane: PlaneChange,
  puts: readonly DomainPut[],
): Promise<readonly ChangedDomain[]> {
  const names = puts.map(({ domain }) => domain)
  return await putInPlaceOf(plane, puts, await findDomains(plane.trx, names))
}

/** As `putDomains`, compared with the domains that there were. */
async function putInPlaceOf(
  plane: PlaneChange,
  puts: readonly DomainPut[],
  stored: ReadonlyMap<string, StoredDomain>,
): Promise<readonly ChangedDomain[]> {
  const compared = puts.map(({ precondition, at, ...after }) => {
    const before = stored.get(after.domain) ?? null
    if (precondition !== null) checkPrecondition(precondition, `domain ${after.domain}`, before, at)
    const isSame = before !== null && isDeepStrictEqual(saidOf(before), after)
    return { before, after, isSame, revision: isSame ? before.revision : plane.takeRevision() }
  })
  const changed = compared.filter(({ isSame }) => !isSame)
  await writeDomains(
    plane.trx,
    changed.map(({ after, revision }) => ({ ...after, revision })),
  )
  for (const { before, after } of changed) record(plane, before && saidOf(before), after)
  return compared.map(({ before, after: { domain }, isSame, revision }) => {
    const outcome = before === null ? 'created' : isSame ? 'unchanged' : 'updated'
    return { domain, outcome, revision }
  })
}

/** The domains of which something was said that is to be restored, as they are; to be read before the policies change. */
export async function domainsToRestore(
  plane: PlaneChange,
  states: readonly DocumentStates[],
): Promise<ReadonlyMap<string, StoredDomain>> {
  const wanted = states.filter(({ kind }) => kind === 'domain')
  return await findDomains(
    plane.trx,
    wanted.map(({ id }) => id),
  )
}

/**
 * Brings what is said of domains back to what it was before; those that were not there are removed. Comes after the
 * policies: one that was not there had none, so whatever has come to be in it is gone by then. `stored` is what there was
 * before them, since a policy that comes back brings its domain along, which nobody would then be told of.
 */
export async function restoreDomains(
  plane: PlaneChange,
  states: readonly DocumentStates[],
  stored: ReadonlyMap<string, StoredDomain>,
): Promise<readonly ChangedDomain[]> {
  const wanted = states.filter(({ kind }) => kind === 'domain')
  const puts = wanted.flatMap(({ before }): readonly DomainPut[] =>
    before === null ? [] : [{ ...domainDocumentSchema.parse(before), precondition: null }],
  )
  const put = await putInPlaceOf(plane, puts, stored)
  const gone = wanted.filter(({ before }) => before === null).map(({ id }) => id)
  const left = [...(await findDomains(plane.trx, gone)).values()]
  const empty = left.filter(({ policyCount }) => policyCount === 0)
  return [...put, ...(await takeAway(plane, empty))]
}

/** Removes an empty domain; QUOTA_IN_USE names policies that one still has. */
export async function deleteDomain(
  plane: PlaneChange,
  { domain, precondition }: { readonly domain: string; readonly precondition: Precondition },
): Promise<void> {
  const before = await requireDomain(plane.trx, domain)
  checkPrecondition(precondition, `domain ${domain}`, before)
  if (before.policyCount > 0) {
    const has = await contentsOf(plane, before)
    throw new QuotaError('QUOTA_IN_USE', `domain ${domain} has ${has}: delete what is in it first`)
  }
  await takeAway(plane, [before])
}

/** Removes domains of which no document speaks. Comes after the policies that go; QUOTA_IN_USE names those that stay. */
export async function pruneDomains(
  plane: PlaneChange,
  domains: readonly string[],
): Promise<readonly ChangedDomain[]> {
  const stored = [...(await findDomains(plane.trx, domains)).values()]
  const problems: InputProblem[] = []
  for (const one of stored.filter(({ policyCount }) => policyCount > 0)) {
    problems.push({
      field: 'prune.labels',
      message: `would remove the domain ${one.domain}, which has ${await contentsOf(plane, one)} beside them`,
      fix: 'name the domain among the documents, take these labels off it, or delete those policies first',
    })
  }
  if (problems.length > 0) {
    const said = problems.map(({ field, message }) => `${field} ${message}`).join('; ')
    throw new QuotaError('QUOTA_IN_USE', said, { problems })
  }
  return await takeAway(plane, stored)
}

/** How many policies a domain has, and the names of the first few. */
async function contentsOf(
  plane: PlaneChange,
  { domain, policyCount }: StoredDomain,
): Promise<string> {
  const names = await firstPoliciesOf(plane.trx, domain, POLICIES_NAMED_MAX)
  const shown = names.map((name) => `${domain}/${name}`).join(', ')
  return `${policyCount === 1 ? '1 policy' : `${policyCount} policies`} (${shown})`
}

async function takeAway(
  plane: PlaneChange,
  domains: readonly StoredDomain[],
): Promise<readonly ChangedDomain[]> {
  await removeDomains(
    plane.trx,
    domains.map(({ domain }) => domain),
  )
  for (const one of domains) {
    plane.takeRevision()
    record(plane, saidOf(one), null)
  }
  return domains.map(({ domain }) => ({ domain, outcome: 'deleted', revision: null }))
}

export async function requireDomain(db: Db, domain: string): Promise<StoredDomain> {
  const found = (await findDomains(db, [domain])).get(domain)
  if (found !== undefined) return found
  throw new QuotaError('QUOTA_DOMAIN_NOT_FOUND', `there is no domain ${domain}`)
}

function saidOf({ domain, description, labels }: DomainValues): DomainValues {
  return { domain, description, labels }
}

function record(plane: PlaneChange, before: DomainValues | null, after: DomainValues | null): void {
  const kept = before === null ? 'create' : 'update'
  plane.record({
    action: `domain.${after === null ? 'delete' : kept}`,
    objectKind: 'domain',
    objectId: (after ?? before)?.domain ?? '',
    before,
    after,
  })
}
