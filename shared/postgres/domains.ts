import { sql } from 'kysely'
import { rowsOf } from './json-rows.ts'
import type { Db, Trx } from './plane.ts'
import { hasLabels } from './policy-rows.ts'

/** What an operator says of a domain. */
export interface DomainValues {
  readonly domain: string
  readonly description: string
  readonly labels: Readonly<Record<string, string>>
}

export interface StoredDomain extends DomainValues {
  /** 0: it came with a policy, and nobody has described it. */
  readonly revision: number
  readonly policyCount: number
}

/** By name; those that there are. */
export async function findDomains(
  db: Db,
  names: readonly string[],
): Promise<ReadonlyMap<string, StoredDomain>> {
  if (names.length === 0) return new Map()
  const rows = await selectDomains(db)
    .where(sql<boolean>`name = any(${[...names]}::text[])`)
    .execute()
  return new Map(rows.map((row) => [row.domain, row]))
}

/** In the order of their names, beginning after `after`. */
export async function listDomains(
  db: Db,
  query: {
    readonly domain?: string | undefined
    /** Only domains that have all of these. */
    readonly labels?: Readonly<Record<string, string>> | undefined
    readonly after: string | null
    readonly limit: number
  },
): Promise<readonly StoredDomain[]> {
  const { domain, labels, after, limit } = query
  let select = selectDomains(db).orderBy('name').limit(limit)
  if (domain !== undefined) select = select.where('name', '=', domain)
  if (labels !== undefined) select = select.where(hasLabels(labels))
  if (after !== null) select = select.where('name', '>', after)
  return await select.execute()
}

/** All that have all of these labels, by name. */
export async function findLabelledDomains(
  db: Db,
  labels: Readonly<Record<string, string>>,
): Promise<readonly StoredDomain[]> {
  return await selectDomains(db).where(hasLabels(labels)).orderBy('name').execute()
}

/** The names of its first few policies. */
export async function firstPoliciesOf(
  db: Db,
  domain: string,
  limit: number,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('policies')
    .where('domain', '=', domain)
    .select('name')
    .orderBy('name')
    .limit(limit)
    .execute()
  return rows.map(({ name }) => name)
}

/** Adds domains, or replaces what is said of them. */
export async function writeDomains(
  trx: Trx,
  domains: readonly (DomainValues & { readonly revision: number })[],
): Promise<void> {
  if (domains.length === 0) return
  const columns = { domain: 'text', description: 'text', labels: 'jsonb', revision: 'bigint' }
  await sql`
    insert into domains (name, description, labels, revision)
    select domain, description, labels, revision from ${rowsOf(domains, columns)}
    on conflict (name) do update set
      description = excluded.description, labels = excluded.labels, revision = excluded.revision`.execute(
    trx,
  )
}

/** Removes domains; the schema refuses one that has policies. */
export async function removeDomains(trx: Trx, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await trx
    .deleteFrom('domains')
    .where(sql<boolean>`name = any(${[...names]}::text[])`)
    .execute()
}

function selectDomains(db: Db) {
  return db
    .selectFrom('domains')
    .select((eb) => [
      'name as domain',
      'description',
      'labels',
      'revision',
      eb
        .selectFrom('policies')
        .whereRef('policies.domain', '=', 'domains.name')
        .select(sql<number>`count(*)::int`.as('count'))
        .$asScalar()
        .as('policyCount'),
    ])
    .$narrowType<{ policyCount: number }>()
}
