import type { RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'
import type { RegionState } from './tables.ts'

export interface StoredRegion {
  readonly id: RegionId
  readonly description: string
  readonly state: RegionState
  readonly revision: number
  readonly registeredAt: Date
  /** When a region that is draining or drained resumes by itself; null: not before it is told to. */
  readonly resumesAt: Date | null
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
    resumesAt: isAway(row.state) ? row.resumes_at : null,
  }))
}

function isAway(state: RegionState): boolean {
  return state === 'draining' || state === 'drained'
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
