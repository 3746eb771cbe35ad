import { sql } from 'kysely'
import type { BaseSplit, LimitRule, Policy, RebaseChoice, RegionId } from '../core/policy.ts'
import { isPattern } from '../core/value-patterns.ts'
import type { Db, Trx } from './plane.ts'
import { type StoredPolicy, selectPolicies, toPolicy } from './policy-rows.ts'

/** What is written of a policy; its limits are written apart. */
export interface PolicyValues extends Omit<Policy, 'id' | 'limits'> {
  readonly rebase: RebaseChoice
  readonly acceptSmallLimits: boolean
}

export interface LimitValues extends Omit<LimitRule, 'id'> {
  readonly policyId: number
  readonly position: number
  readonly capacity: number
  readonly windowMs: number
  /** Null: follows the capacity. */
  readonly burst: number | null
  readonly split: Readonly<Record<RegionId, number>>
  readonly floorPercent: number
}

export interface PolicyKey {
  readonly domain: string
  readonly name: string
}

export async function findPolicy(db: Db, key: PolicyKey): Promise<StoredPolicy | null> {
  const row = await selectPolicies(db)
    .where('domain', '=', key.domain)
    .where('name', '=', key.name)
    .executeTakeFirst()
  return row === undefined ? null : toPolicy(row)
}

/** The name of the policy of this domain with the same match, if there is one. */
export async function findPolicyByMatch(
  db: Db,
  domain: string,
  match: Policy['match'],
): Promise<string | null> {
  const row = await db
    .selectFrom('policies')
    .where('domain', '=', domain)
    .where(sql<boolean>`md5(match::text) in (${sql.join(sameMatches(match))})`)
    .select('name')
    .executeTakeFirst()
  return row?.name ?? null
}

/** Which values count together changes nothing of what is matched. */
function sameMatches(match: Policy['match']) {
  const apart = match.map(({ shared: _shared, ...entry }) => entry)
  const together = apart.map((entry) =>
    entry.value === undefined || isPattern(entry.value) ? { ...entry, shared: true } : entry,
  )
  return [match, apart, together].map((one) => sql`md5(${JSON.stringify(one)}::jsonb::text)`)
}

/** Policies in the order of domain and name, beginning after `after`. */
export async function listPolicies(
  db: Db,
  query: {
    readonly domain?: string | undefined
    readonly after: PolicyKey | null
    readonly limit: number
  },
): Promise<readonly StoredPolicy[]> {
  let select = selectPolicies(db).orderBy('domain').orderBy('name').limit(query.limit)
  if (query.domain !== undefined) select = select.where('domain', '=', query.domain)
  if (query.after !== null) {
    const { domain, name } = query.after
    select = select.where((eb) => eb(eb.refTuple('domain', 'name'), '>', eb.tuple(domain, name)))
  }
  return (await select.execute()).map(toPolicy)
}

/** Policies whose base follows the demand. */
export async function listRebasedPolicies(db: Db): Promise<readonly StoredPolicy[]> {
  const rows = await selectPolicies(db).where('rebase', '=', 'auto').orderBy('id').execute()
  return rows.map(toPolicy)
}

export async function insertPolicy(trx: Trx, values: PolicyValues): Promise<number> {
  await trx
    .insertInto('domains')
    .values({ name: values.domain })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const { id } = await trx
    .insertInto('policies')
    .values({ domain: values.domain, name: values.name, ...policyColumns(values) })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

export async function updatePolicy(trx: Trx, id: number, values: PolicyValues): Promise<void> {
  await trx
    .updateTable('policies')
    .set({ ...policyColumns(values), updated_at: new Date() })
    .where('id', '=', id)
    .execute()
}

/** Gives the policy a newer revision, because something of it changed that regions must see. */
export async function touchPolicy(trx: Trx, id: number, revision: number): Promise<void> {
  await trx
    .updateTable('policies')
    .set({ revision, updated_at: new Date() })
    .where('id', '=', id)
    .execute()
}

/** Removes a policy with its limits and leaves a tombstone for regions that are away. */
export async function deletePolicy(
  trx: Trx,
  policy: PolicyKey & { readonly id: number },
  revision: number,
): Promise<void> {
  await trx
    .insertInto('policy_tombstones')
    .values({ policy_id: policy.id, domain: policy.domain, name: policy.name, revision })
    .execute()
  await trx.deleteFrom('policies').where('id', '=', policy.id).execute()
}

/** Adds a limit under an id that no limit ever had, in its first epoch, which has nothing to be moved from. */
export async function insertLimit(trx: Trx, values: LimitValues, base: BaseSplit): Promise<number> {
  const { id } = await trx
    .insertInto('limits')
    .values({ policy_id: values.policyId, name: values.name, ...limitColumns(values) })
    .returning('id')
    .executeTakeFirstOrThrow()
  await trx
    .insertInto('base_epochs')
    .values({ limit_id: id, epoch: 1, base: JSON.stringify(base), closed_at: new Date() })
    .execute()
  return id
}

export async function updateLimit(trx: Trx, id: number, values: LimitValues): Promise<void> {
  await trx.updateTable('limits').set(limitColumns(values)).where('id', '=', id).execute()
}

export async function deleteLimits(trx: Trx, ids: readonly number[]): Promise<void> {
  if (ids.length > 0) await trx.deleteFrom('limits').where('id', 'in', ids).execute()
}

/** Starts the counters of each limit of a policy anew, in every region. */
export async function resetUsage(trx: Trx, policyId: number): Promise<void> {
  await trx
    .updateTable('limits')
    .set((eb) => ({ usage_epoch: eb('usage_epoch', '+', 1) }))
    .where('policy_id', '=', policyId)
    .execute()
}

function policyColumns(values: PolicyValues) {
  return {
    description: values.description,
    match: JSON.stringify(values.match),
    mode: values.mode,
    relaxed_percent: values.relaxedPercent,
    objective: values.objective,
    on_store_failure: values.onStoreFailure,
    shadow: values.shadow,
    unlimited: values.unlimited,
    rebase: values.rebase,
    accept_small_limits: values.acceptSmallLimits,
    tiers: values.tiers === undefined ? null : JSON.stringify(values.tiers),
    overrides_by: values.overridesBy ?? null,
    replaces: values.replaces ?? null,
    revision: values.revision,
  }
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
    split: JSON.stringify(values.split),
    floor_percent: values.floorPercent,
  }
}
