import { type Kysely, sql, Transaction } from 'kysely'
import { QuotaError } from '../errors.ts'
import type { Tables } from './tables.ts'

export type Db = Kysely<Tables>
export type Trx = Transaction<Tables>

/** Tells states of the plane apart, also of two histories: one that was restored may come to the same number again. */
export interface PlaneStamp {
  readonly revision: number
  /** When that revision was made, to the microsecond; null where the history does not tell. */
  readonly at: string | null
}

export function isSameStamp(one: PlaneStamp | null, other: PlaneStamp): boolean {
  return one !== null && one.revision === other.revision && one.at === other.at
}

/**
 * The newest state of the plane. Rejects with QUOTA_DATABASE_UNAVAILABLE on a replica: what it holds may be a
 * while old, and a region that lost its memory must not begin by an old base split.
 */
export async function readStamp(db: Db): Promise<PlaneStamp> {
  const { revision, at, is_replica } = await db
    .selectFrom('plane')
    .select('revision')
    .select([
      sql<string | null>`(select at::text from revisions where number = plane.revision)`.as('at'),
      sql<boolean>`pg_is_in_recovery()`.as('is_replica'),
    ])
    .executeTakeFirstOrThrow()
  if (!is_replica) return { revision, at }
  const message = 'DATABASE_URL names a replica of Postgres; it must name the primary'
  throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', message)
}

/** The newest revision of the plane; rejects as `readStamp` does. */
export async function readRevision(db: Db): Promise<number> {
  return (await readStamp(db)).revision
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
