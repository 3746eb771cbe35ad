/** How a region leaves the plane and comes back: its state, certificates, and the policies that are concerned. */
import { sql } from 'kysely'
import type { RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'
import { type StoredPolicy, selectPolicies, toPolicy } from './policy-rows.ts'
import type { RegionState } from './tables.ts'

/** An operator's word that a region is fenced off: no traffic, no daemon, no Redis of it is in use. */
export interface Certificate {
  readonly region: RegionId
  readonly certifiedBy: string
  readonly reason: string
  readonly certifiedAt: Date
}

/** Gives a region another state under a new revision of its own; when it is to resume by itself comes with the state. */
export async function setRegionState(
  trx: Trx,
  change: {
    readonly id: RegionId
    readonly state: RegionState
    readonly revision: number
    readonly resumesAt: Date | null
  },
): Promise<void> {
  const { id, state, revision, resumesAt: resumes_at } = change
  await trx
    .updateTable('regions')
    .set({ state, revision, resumes_at })
    .where('id', '=', id)
    .execute()
}

export async function listCertificates(db: Db): Promise<readonly Certificate[]> {
  const rows = await db.selectFrom('removals').selectAll().orderBy('region').execute()
  return rows.map((row) => ({
    region: row.region,
    certifiedBy: row.certified_by,
    reason: row.reason,
    certifiedAt: row.certified_at,
  }))
}

export async function insertCertificate(
  trx: Trx,
  certificate: Omit<Certificate, 'certifiedAt'> & { readonly certifiedAt: Date },
): Promise<void> {
  const { region, certifiedBy: certified_by, reason, certifiedAt: certified_at } = certificate
  await trx.insertInto('removals').values({ region, certified_by, reason, certified_at }).execute()
}

export async function deleteCertificate(trx: Trx, region: RegionId): Promise<void> {
  await trx.deleteFrom('removals').where('region', '=', region).execute()
}

/** Policies with a limit whose split, base, or base before an open epoch names one of the regions. */
export async function listPoliciesOf(
  db: Db,
  regions: readonly RegionId[],
): Promise<readonly StoredPolicy[]> {
  if (regions.length === 0) return []
  const named = sql`${[...regions]}::text[]`
  const rows = await selectPolicies(db)
    .where((eb) =>
      eb.exists(
        eb
          .selectFrom('limits as l')
          .innerJoin('base_epochs as b', 'b.limit_id', 'l.id')
          .whereRef('l.policy_id', '=', 'policies.id')
          .where(
            sql<boolean>`b.epoch >= (select max(epoch) from base_epochs where limit_id = l.id) - 1
              and (jsonb_exists_any(b.base, ${named}) or jsonb_exists_any(l.split, ${named}))`,
          )
          .select('l.id'),
      ),
    )
    .orderBy('policies.id')
    .execute()
  return rows.map(toPolicy)
}

/** Replaces the weights that the operator gave a limit. */
export async function setSplit(
  trx: Trx,
  limitId: number,
  split: Readonly<Record<RegionId, number>>,
): Promise<void> {
  await trx
    .updateTable('limits')
    .set({ split: JSON.stringify(split) })
    .where('id', '=', limitId)
    .execute()
}
