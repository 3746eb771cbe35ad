/**
 * Reads and writes many policies by one statement of each kind, whatever their number: a plane of ten thousand policies
 * is changed within the time that its lock may be held. Rows go as one JSON parameter, since Postgres takes at most
 * 65,535 of them.
 */
import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import type { Override } from '../core/overrides.ts'
import type { BaseSplit, Policy } from '../core/policy.ts'
import { isPattern } from '../core/value-patterns.ts'
import { assignments, namesOf, rowsOf } from './json-rows.ts'
import type { Db, Trx } from './plane.ts'
import type { LimitValues, PolicyKey, PolicyValues } from './policies.ts'
import { hasLabels, type StoredPolicy, selectPolicies, toPolicy } from './policy-rows.ts'

const POLICY_COLUMNS = {
  description: 'text',
  match: 'jsonb',
  mode: 'text',
  relaxed_percent: 'smallint',
  objective: 'text',
  on_store_failure: 'text',
  shadow: 'boolean',
  unlimited: 'boolean',
  rebase: 'text',
  accept_small_limits: 'boolean',
  tiers: 'jsonb',
  overrides_by: 'text',
  replaces: 'text[]',
  labels: 'jsonb',
  revision: 'bigint',
} as const

const LIMIT_COLUMNS = {
  position: 'smallint',
  algorithm: 'text',
  capacity: 'bigint',
  window_ms: 'bigint',
  burst: 'bigint',
  calendar_unit: 'text',
  time_zone: 'text',
  shards: 'smallint',
  leases: 'text',
  candidate_of: 'bigint',
  split: 'jsonb',
  floor_percent: 'smallint',
} as const

/** By name, in one snapshot; those that there are. */
export async function findPolicies(
  db: Db,
  keys: readonly PolicyKey[],
): Promise<ReadonlyMap<string, StoredPolicy>> {
  if (keys.length === 0) return new Map()
  const domains = keys.map(({ domain }) => domain)
  const names = keys.map(({ name }) => name)
  const rows = await selectPolicies(db)
    .where(
      sql<boolean>`(domain, name) in (select * from unnest(${domains}::text[], ${names}::text[]))`,
    )
    .execute()
  return new Map(rows.map((row) => [nameOf(row), toPolicy(row)]))
}

/** Policies that have every one of these labels. */
export async function findLabelled(
  db: Db,
  labels: Readonly<Record<string, string>>,
): Promise<readonly StoredPolicy[]> {
  const rows = await selectPolicies(db)
    .where(hasLabels(labels))
    .orderBy('domain')
    .orderBy('name')
    .execute()
  return rows.map(toPolicy)
}

/** Policies that match what one of these does, each with the name of the one that it is like. */
export async function findSameMatches(
  db: Db,
  policies: readonly Pick<Policy, 'domain' | 'name' | 'match'>[],
): Promise<readonly { readonly policy: PolicyKey; readonly like: string }[]> {
  if (policies.length === 0) return []
  const rows = policies.flatMap(({ domain, name, match }) =>
    sameMatches(match).map((one) => ({ domain, name, match: one })),
  )
  const columns = { domain: 'text', name: 'text', match: 'jsonb' }
  const { rows: found } = await sql<{ domain: string; name: string; like_name: string }>`
    select distinct policies.domain, policies.name, v.name as like_name
    from policies join ${rowsOf(rows, columns)}
      on policies.domain = v.domain and md5(policies.match::text) = md5(v.match::text)`.execute(db)
  return found.map(({ domain, name, like_name: like }) => ({ policy: { domain, name }, like }))
}

/** Which values count together changes nothing of what is matched. */
function sameMatches(match: Policy['match']): readonly Policy['match'][] {
  const apart = match.map(({ shared: _shared, ...entry }) => entry)
  const together = apart.map((entry) =>
    entry.value === undefined || isPattern(entry.value) ? { ...entry, shared: true } : entry,
  )
  return [apart, together, match].filter(
    (one, index, all) => all.findIndex((other) => isDeepStrictEqual(one, other)) === index,
  )
}

/** How a policy is called where its domain and name are one text. */
export function nameOf({ domain, name }: PolicyKey): string {
  return `${domain}/${name}`
}

/** Adds policies; gives the id of each, in their order. */
export async function insertPolicies(
  trx: Trx,
  policies: readonly PolicyValues[],
): Promise<readonly number[]> {
  if (policies.length === 0) return []
  const domains = [...new Set(policies.map(({ domain }) => domain))].sort()
  await sql`insert into domains (name) select unnest(${domains}::text[]) on conflict do nothing`.execute(
    trx,
  )
  const rows = policies.map((values) => {
    const { domain, name } = values
    return { domain, name, ...policyColumns(values) }
  })
  const columns = { domain: 'text', name: 'text', ...POLICY_COLUMNS }
  const { rows: added } = await sql<{ id: number; domain: string; name: string }>`
    insert into policies (${namesOf(columns)}) select ${namesOf(columns)} from ${rowsOf(rows, columns)}
    returning id, domain, name`.execute(trx)
  const ids = new Map(added.map((row) => [nameOf(row), row.id]))
  return policies.map((policy) => ids.get(nameOf(policy)) ?? 0)
}

export async function updatePolicies(
  trx: Trx,
  policies: readonly { readonly id: number; readonly values: PolicyValues }[],
): Promise<void> {
  if (policies.length === 0) return
  const rows = policies.map(({ id, values }) => ({ id, ...policyColumns(values) }))
  const columns = { id: 'bigint', ...POLICY_COLUMNS }
  await sql`
    update policies set ${assignments(POLICY_COLUMNS)}, updated_at = clock_timestamp()
    from ${rowsOf(rows, columns)} where policies.id = v.id`.execute(trx)
}

/**
 * Gives these policies matches that no other can have until they are written anew in this transaction, so that
 * policies may exchange theirs.
 */
export async function parkMatches(trx: Trx, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    update policies set match = jsonb_build_array(jsonb_build_object('parked', id))
    where id = any(${[...ids]}::bigint[])`.execute(trx)
}

/** Removes policies with their limits, each with a tombstone for regions that are away. */
export async function removePolicies(
  trx: Trx,
  policies: readonly { readonly policy: StoredPolicy; readonly revision: number }[],
): Promise<void> {
  if (policies.length === 0) return
  const rows = policies.map(({ policy: { id, domain, name }, revision }) => ({
    policy_id: id,
    domain,
    name,
    revision,
  }))
  const columns = { policy_id: 'bigint', domain: 'text', name: 'text', revision: 'bigint' }
  await sql`
    insert into policy_tombstones (${namesOf(columns)})
    select ${namesOf(columns)} from ${rowsOf(rows, columns)}`.execute(trx)
  const ids = policies.map(({ policy }) => policy.id)
  await sql`delete from policies where id = any(${ids}::bigint[])`.execute(trx)
}

/** Adds limits under ids that no limit ever had, each in its first epoch; gives the ids in their order. */
export async function insertLimits(
  trx: Trx,
  limits: readonly { readonly values: LimitValues; readonly base: BaseSplit }[],
): Promise<readonly number[]> {
  if (limits.length === 0) return []
  const rows = limits.map(({ values }) => ({
    policy_id: values.policyId,
    name: values.name,
    ...limitColumns(values),
  }))
  const columns = { policy_id: 'bigint', name: 'text', ...LIMIT_COLUMNS }
  const { rows: added } = await sql<{ id: number; policy_id: number; position: number }>`
    insert into limits (${namesOf(columns)}) select ${namesOf(columns)} from ${rowsOf(rows, columns)}
    returning id, policy_id, position`.execute(trx)
  const ids = new Map(added.map((row) => [`${row.policy_id} ${row.position}`, row.id]))
  const inOrder = limits.map(({ values }) => ids.get(`${values.policyId} ${values.position}`) ?? 0)
  const epochs = limits.map(({ base }, index) => ({
    limitId: inOrder[index] ?? 0,
    epoch: 1,
    base,
    // There is no split before the first that it would have to be moved from.
    isClosed: true,
  }))
  await openEpochs(trx, epochs)
  return inOrder
}

export async function deleteLimits(trx: Trx, ids: readonly number[]): Promise<void> {
  if (ids.length > 0)
    await sql`delete from limits where id = any(${[...ids]}::bigint[])`.execute(trx)
}

export async function updateLimits(
  trx: Trx,
  limits: readonly { readonly id: number; readonly values: LimitValues }[],
): Promise<void> {
  if (limits.length === 0) return
  const rows = limits.map(({ id, values }) => ({ id, ...limitColumns(values) }))
  await sql`
    update limits set ${assignments(LIMIT_COLUMNS)}
    from ${rowsOf(rows, { id: 'bigint', ...LIMIT_COLUMNS })} where limits.id = v.id`.execute(trx)
}

export interface EpochValues {
  readonly limitId: number
  readonly epoch: number
  readonly base: BaseSplit
  /** It is in force everywhere at once. */
  readonly isClosed: boolean
}

/** Begins epochs; the schema refuses a second open one of a limit. */
export async function openEpochs(trx: Trx, epochs: readonly EpochValues[]): Promise<void> {
  if (epochs.length === 0) return
  const rows = epochs.map(({ limitId: limit_id, epoch, base, isClosed }) => ({
    limit_id,
    epoch,
    base,
    is_closed: isClosed,
  }))
  const columns = { limit_id: 'bigint', epoch: 'bigint', base: 'jsonb', is_closed: 'boolean' }
  await sql`
    insert into base_epochs (limit_id, epoch, base, closed_at)
    select limit_id, epoch, base, case when is_closed then clock_timestamp() end
    from ${rowsOf(rows, columns)}`.execute(trx)
}

/** Adds overrides of several policies, or replaces those of the same values. */
export async function writeAllOverrides(
  trx: Trx,
  overrides: readonly { readonly policyId: number; readonly override: Override }[],
): Promise<void> {
  if (overrides.length === 0) return
  const rows = overrides.map(({ policyId: policy_id, override }) => ({
    policy_id,
    value: override.value,
    rule: override.rule,
    expires_at:
      override.expiresAtMs === undefined ? null : new Date(override.expiresAtMs).toISOString(),
  }))
  const columns = { policy_id: 'bigint', value: 'text', rule: 'jsonb', expires_at: 'timestamptz' }
  await sql`
    insert into overrides (${namesOf(columns)}) select ${namesOf(columns)} from ${rowsOf(rows, columns)}
    on conflict (policy_id, value) do update set rule = excluded.rule, expires_at = excluded.expires_at`.execute(
    trx,
  )
}

/** Removes overrides of several policies by value. */
export async function deleteAllOverrides(
  trx: Trx,
  overrides: readonly { readonly policyId: number; readonly value: string }[],
): Promise<void> {
  if (overrides.length === 0) return
  const rows = overrides.map(({ policyId: policy_id, value }) => ({ policy_id, value }))
  await sql`
    delete from overrides using ${rowsOf(rows, { policy_id: 'bigint', value: 'text' })}
    where overrides.policy_id = v.policy_id and overrides.value = v.value`.execute(trx)
}

function policyColumns(values: PolicyValues) {
  return {
    description: values.description,
    match: values.match,
    mode: values.mode,
    relaxed_percent: values.relaxedPercent,
    objective: values.objective,
    on_store_failure: values.onStoreFailure,
    shadow: values.shadow,
    unlimited: values.unlimited,
    rebase: values.rebase,
    accept_small_limits: values.acceptSmallLimits,
    tiers: values.tiers ?? null,
    overrides_by: values.overridesBy ?? null,
    replaces: values.replaces ?? null,
    labels: values.labels,
    revision: values.revision,
  } satisfies Record<keyof typeof POLICY_COLUMNS, unknown>
}

function limitColumns(values: LimitValues) {
  return {
    position: values.position,
    algorithm: values.algorithm,
    capacity: values.capacity,
    window_ms: values.windowMs,
    burst: values.burst,
    calendar_unit: values.calendar?.unit ?? null,
    time_zone: values.calendar?.timeZone ?? null,
    shards: values.shards,
    leases: values.leases,
    candidate_of: values.candidateOf,
    split: values.split,
    floor_percent: values.floorPercent,
  } satisfies Record<keyof typeof LIMIT_COLUMNS, unknown>
}
