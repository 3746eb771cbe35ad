import type { RegionId } from '../../shared/core/policy.ts'
import type { ChangeContext } from '../../shared/postgres/audit.ts'
import { closeEpoch, listOpenEpochs, recordAdoption } from '../../shared/postgres/epochs.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import { changePlane, type PlaneChange } from '../../shared/postgres/plane-change.ts'
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
  await changePlane(db, context, async (plane) => {
    for (const adoption of adoptions) await recordAdoption(plane.trx, adoption)
    await closeAdoptedEpochs(plane)
  })
}

/**
 * Closes each open epoch that awaits no registered region. Its policy gets a new revision, by which regions
 * learn that the split before is no longer in force anywhere.
 */
export async function closeAdoptedEpochs(plane: PlaneChange): Promise<void> {
  const { trx } = plane
  const regions = (await listRegions(trx)).map((region) => region.id)
  for (const open of await listOpenEpochs(trx)) {
    if (regions.some((region) => !open.adopted.includes(region))) continue
    await closeEpoch(trx, open.limitId, open.epoch)
    await touchPolicy(trx, open.policyId, plane.takeRevision())
    const id = `${open.domain}/${open.policy}`
    const after = { limit: open.limit, epoch: open.epoch, adopted: open.adopted }
    plane.record({
      action: 'epoch.close',
      objectKind: 'policy',
      objectId: id,
      before: null,
      after,
      documents: [{ kind: 'base', id, before: null, after }],
    })
  }
}
