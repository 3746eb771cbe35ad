import { type Kysely, sql, Transaction } from 'kysely'
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
 * Makes every other change wait until this transaction ends, and gives the plane's revision. Must come before the
 * first read that the change rests on: what is read after it stays true until the commit.
 */
export async function lockPlane(trx: Trx): Promise<number> {
  const select = trx.selectFrom('plane').select('revision').forUpdate()
  return (await select.executeTakeFirstOrThrow()).revision
}

/** Carries out `work` in the transaction that `db` is, or else in one of its own. */
export async function inTransaction<T>(db: Db, work: (trx: Trx) => Promise<T>): Promise<T> {
  return db instanceof Transaction ? await work(db) : await db.transaction().execute(work)
}
