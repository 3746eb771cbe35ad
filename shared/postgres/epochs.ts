/**
 * Base epochs: how a limit moves from one base split to another without both being in force.
 *
 * An epoch is open from the change until every registered region says that it has adopted it. While it is
 * open, regions see the split before it too, and no further change of the split is accepted.
 */
import { sql } from 'kysely'
import type { BaseSplit, RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'

export interface OpenEpoch {
  readonly limitId: number
  readonly limit: string
  readonly policyId: number
  readonly domain: string
  readonly policy: string
  readonly epoch: number
  readonly adopted: readonly RegionId[]
  readonly openedAt: Date
}

/** Begins the epoch after `epoch`. Its base sums to the pool; the schema refuses a second open one. */
export async function openEpoch(
  trx: Trx,
  next: { readonly limitId: number; readonly epoch: number; readonly base: BaseSplit },
): Promise<void> {
  await trx
    .insertInto('base_epochs')
    .values({ limit_id: next.limitId, epoch: next.epoch, base: JSON.stringify(next.base) })
    .execute()
}

export async function listOpenEpochs(db: Db): Promise<readonly OpenEpoch[]> {
  const rows = await db
    .selectFrom('base_epochs')
    .innerJoin('limits', 'limits.id', 'base_epochs.limit_id')
    .innerJoin('policies', 'policies.id', 'limits.policy_id')
    .where('base_epochs.closed_at', 'is', null)
    .select([
      'limits.id as limitId',
      'limits.name as limit',
      'policies.id as policyId',
      'policies.domain',
      'policies.name as policy',
      'base_epochs.epoch',
      'base_epochs.adopted',
      'base_epochs.opened_at as openedAt',
    ])
    .orderBy('limits.id')
    .execute()
  return rows
}

/** Notes that a region has adopted an epoch. Idempotent; an epoch that is closed or gone is left alone. */
export async function recordAdoption(
  trx: Trx,
  adoption: { readonly region: RegionId; readonly limitId: number; readonly epoch: number },
): Promise<void> {
  await trx
    .updateTable('base_epochs')
    .set({ adopted: sql`array_append(adopted, ${adoption.region}::text)` })
    .where('limit_id', '=', adoption.limitId)
    .where('epoch', '<=', adoption.epoch)
    .where('closed_at', 'is', null)
    .where(sql<boolean>`not (${adoption.region}::text = any (adopted))`)
    .execute()
}

export async function closeEpoch(trx: Trx, limitId: number, epoch: number): Promise<void> {
  await trx
    .updateTable('base_epochs')
    .set({ closed_at: new Date() })
    .where('limit_id', '=', limitId)
    .where('epoch', '=', epoch)
    .execute()
}
