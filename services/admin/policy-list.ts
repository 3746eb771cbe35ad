import { type Db, readStamp } from '../../shared/postgres/plane.ts'
import type { PolicyMemory } from '../../shared/postgres/plane-change.ts'
import { listPolicies, type PolicyKey, type PolicyQuery } from '../../shared/postgres/policies.ts'
import type { StoredPolicy } from '../../shared/postgres/policy-rows.ts'

/** A page of policies: out of memory while that is of the plane's newest state, or else of Postgres. */
export async function pageOfPolicies(
  { db, cache }: { readonly db: Db; readonly cache: PolicyMemory },
  query: PolicyQuery,
): Promise<readonly StoredPolicy[]> {
  // What is the same in any case depends on the language of the database.
  const all = query.search === undefined ? cache.policiesAt(await readStamp(db)) : null
  if (all === null) return await listPolicies(db, query)
  const page: StoredPolicy[] = []
  for (const policy of all.values()) {
    if (page.length === query.limit) break
    if (isMeant(policy, query)) page.push(policy)
  }
  return page
}

function isMeant(policy: StoredPolicy, { domain, labels, after }: PolicyQuery): boolean {
  if (after !== null && !isAfter(policy, after)) return false
  if (domain !== undefined && policy.domain !== domain) return false
  return Object.entries(labels ?? {}).every(([label, value]) => policy.labels[label] === value)
}

/** As the collation "C" has it. */
function isAfter(policy: PolicyKey, after: PolicyKey): boolean {
  return policy.domain === after.domain ? policy.name > after.name : policy.domain > after.domain
}
