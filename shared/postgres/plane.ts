import type { Kysely, Transaction } from 'kysely'
import type { Tables } from './tables.ts'

export type Db = Kysely<Tables>
export type Trx = Transaction<Tables>

/** The newest revision of the plane. */
export async function readRevision(db: Db): Promise<number> {
  const { revision } = await db.selectFrom('plane').select('revision').executeTakeFirstOrThrow()
  return revision
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
