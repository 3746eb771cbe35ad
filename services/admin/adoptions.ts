import type { RegionId } from '../../shared/core/policy.ts'
import { type ChangeContext, recordAudit } from '../../shared/postgres/audit.ts'
import { closeEpoch, listOpenEpochs, recordAdoption } from '../../shared/postgres/epochs.ts'
import { type Db, lockPlane, type Trx, takeRevision } from '../../shared/postgres/plane.ts'
import { touchPolicy } from '../../shared/postgres/policies.ts'
import { listRegions } from '../../shared/postgres/regions.ts'

/** A region said in its record that it works with this epoch of the limit. */
export interface Adoption {
  readonly region: RegionId
  readonly limitId: number
  readonly epoch: number
}

/** Notes adoptions and closes the epochs that every registered region has adopted. Idempotent. */
export async function recordAdoptions(
  db: Db,
  adoptions: readonly Adoption[],
  context: ChangeContext,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await lockPlane(trx)
    for (const adoption of adoptions) await recordAdoption(trx, adoption)
    await closeAdoptedEpochs(trx, context)
  })
}

/**
 * Closes each open epoch that awaits no registered region. Its policy gets a new revision, by which regions
 * learn that the split before is no longer in force anywhere. The caller holds the plane's lock.
 */
export async function closeAdoptedEpochs(trx: Trx, context: ChangeContext): Promise<void> {
  const regions = (await listRegions(trx)).map((region) => region.id)
  for (const open of await listOpenEpochs(trx)) {
    if (regions.some((region) => !open.adopted.includes(region))) continue
    await closeEpoch(trx, open.limitId, open.epoch)
    await touchPolicy(trx, open.policyId, await takeRevision(trx))
    await recordAudit(trx, context, {
      action: 'epoch.close',
      objectKind: 'policy',
      objectId: `${open.domain}/${open.policy}`,
      before: null,
      after: { limit: open.limit, epoch: open.epoch, adopted: open.adopted },
    })
  }
}
