import { type Kysely, sql, type Transaction } from 'kysely'
import { QuotaError } from '../errors.ts'
import type { Tables } from './tables.ts'

export type Db = Kysely<Tables>
export type Trx = Transaction<Tables>

/**
 * The newest revision of the plane. Rejects with QUOTA_DATABASE_UNAVAILABLE on a replica: what it holds may be a
 * while old, and a region that lost its memory must not begin by an old base split.
 */
export async function readRevision(db: Db): Promise<number> {
  const { revision, is_replica } = await db
    .selectFrom('plane')
    .select('revision')
    .select(sql<boolean>`pg_is_in_recovery()`.as('is_replica'))
    .executeTakeFirstOrThrow()
  if (!is_replica) return revision
  const message = 'DATABASE_URL names a replica of Postgres; it must name the primary'
  throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', message)
}

/**
 * Makes every other change wait until this transaction ends. Must come before the first read that the change
 * rests on: what is read after it stays true until the commit.
 */
export async function lockPlane(trx: Trx): Promise<void> {
  await trx.selectFrom('plane').select('revision').forUpdate().executeTakeFirstOrThrow()
}

/** The next revision, which is this transaction's alone. A rollback gives it back, so there are no gaps. */
export async function takeRevision(trx: Trx): Promise<number> {
  const { revision } = await trx
    .updateTable('plane')
    .set((eb) => ({ revision: eb('revision', '+', 1) }))
    .returning('revision')
    .executeTakeFirstOrThrow()
  return revision
}
