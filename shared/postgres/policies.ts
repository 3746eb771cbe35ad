import { sql } from 'kysely'
import type { LimitRule, Policy, RebaseChoice, RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'
import { hasLabels, hasText, type StoredPolicy, selectPolicies, toPolicy } from './policy-rows.ts'

/** What is written of a policy; its limits are written apart. */
export interface PolicyValues extends Omit<Policy, 'id' | 'limits'> {
  readonly rebase: RebaseChoice
  readonly acceptSmallLimits: boolean
  readonly labels: Readonly<Record<string, string>>
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

export interface PolicyQuery {
  readonly domain?: string | undefined
  /** Only policies that have all of these. */
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Only policies that have this in domain/name or their description, in any case. */
  readonly search?: string | undefined
  readonly after: PolicyKey | null
  readonly limit: number
}

/** By code points and not as people of some language sort: so do the programs that read what Postgres sorted. */
const BY_KEY = [sql`domain collate "C"`, sql`name collate "C"`] as const

/** Policies in the order of domain and name, beginning after `after`. */
export async function listPolicies(db: Db, query: PolicyQuery): Promise<readonly StoredPolicy[]> {
  const [domain, name] = BY_KEY
  let select = selectPolicies(db).orderBy(domain).orderBy(name).limit(query.limit)
  if (query.domain !== undefined) select = select.where('domain', '=', query.domain)
  if (query.labels !== undefined) select = select.where(hasLabels(query.labels))
  if (query.search !== undefined) select = select.where(hasText(query.search))
  if (query.after !== null) {
    const { after } = query
    select = select.where(
      sql<boolean>`(${domain}, ${name}) > (${after.domain}::text, ${after.name}::text)`,
    )
  }
  return (await select.execute()).map(toPolicy)
}

/** Policies whose base follows the demand. */
export async function listRebasedPolicies(db: Db): Promise<readonly StoredPolicy[]> {
  const rows = await selectPolicies(db).where('rebase', '=', 'auto').orderBy('id').execute()
  return rows.map(toPolicy)
}

/** Gives the policy a newer revision, because something of it changed that regions must see. */
export async function touchPolicy(trx: Trx, id: number, revision: number): Promise<void> {
  await trx
    .updateTable('policies')
    .set({ revision, updated_at: new Date() })
    .where('id', '=', id)
    .execute()
}

/** Starts the counters of these limits of a policy anew, in every region. */
export async function resetUsage(
  trx: Trx,
  policyId: number,
  limitIds: readonly number[],
): Promise<void> {
  if (limitIds.length === 0) return
  await trx
    .updateTable('limits')
    .set((eb) => ({ usage_epoch: eb('usage_epoch', '+', 1) }))
    .where('policy_id', '=', policyId)
    .where('id', 'in', limitIds)
    .execute()
}
