import { sql } from 'kysely'
import type { RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'
import type { RegionState } from './tables.ts'

export interface StoredRegion {
  readonly id: RegionId
  readonly description: string
  readonly state: RegionState
  readonly revision: number
  readonly registeredAt: Date
}

/** Every registered region in the order of their names; there are at most REGIONS_MAX. */
export async function listRegions(db: Db): Promise<readonly StoredRegion[]> {
  const rows = await db.selectFrom('regions').selectAll().orderBy('id').execute()
  return rows.map((row) => ({
    id: row.id,
    description: row.description,
    state: row.state,
    revision: row.revision,
    registeredAt: row.registered_at,
  }))
}

export async function findRegion(db: Db, id: RegionId): Promise<StoredRegion | null> {
  return (await listRegions(db)).find((region) => region.id === id) ?? null
}

/** Registers a region or replaces its description. */
export async function writeRegion(
  trx: Trx,
  region: { readonly id: RegionId; readonly description: string; readonly revision: number },
): Promise<void> {
  const { description, revision } = region
  await trx
    .insertInto('regions')
    .values(region)
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ description, revision }))
    .execute()
}

export async function deleteRegion(trx: Trx, id: RegionId): Promise<void> {
  await trx.deleteFrom('regions').where('id', '=', id).execute()
}

/** Policies, as `domain/name`, with a split that names the region or is still being moved away from it. */
export async function policiesUsingRegion(
  db: Db,
  id: RegionId,
  limit: number,
): Promise<readonly string[]> {
  const rows = await db
    .selectFrom('policies')
    .innerJoin('limits', 'limits.policy_id', 'policies.id')
    .where((eb) =>
      eb.or([
        eb(sql`limits.split -> ${id}::text`, 'is not', null),
        eb.exists(
          eb
            .selectFrom('base_epochs as open')
            .innerJoin('base_epochs as before', (join) =>
              join
                .onRef('before.limit_id', '=', 'open.limit_id')
                .on(sql<boolean>`before.epoch = open.epoch - 1`),
            )
            .whereRef('open.limit_id', '=', 'limits.id')
            .where('open.closed_at', 'is', null)
            .where(sql<boolean>`before.base -> ${id}::text is not null`)
            .select('open.limit_id'),
        ),
      ]),
    )
    .select(['policies.domain', 'policies.name'])
    .distinct()
    .orderBy('policies.domain')
    .orderBy('policies.name')
    .limit(limit)
    .execute()
  return rows.map((row) => `${row.domain}/${row.name}`)
}
