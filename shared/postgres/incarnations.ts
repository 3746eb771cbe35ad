import { sql } from 'kysely'
import type { RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'

export interface IncarnationQuestion {
  readonly region: RegionId
  /** The same id again gets the same answer. */
  readonly requestId: string
  /** The highest incarnation that the region or anyone else knows it had; 0 when none is known. */
  readonly atLeast: number
  readonly nowMs: number
}

/**
 * The next incarnation of a region, above every one it had.
 *
 * Never below the wall clock in milliseconds: a region that could not reach us counted on from its own, and
 * the counter here does not know of that. `first` is true once in a region's life.
 */
export async function takeIncarnation(
  db: Db,
  question: IncarnationQuestion,
): Promise<{ readonly incarnation: number; readonly first: boolean }> {
  const least = Math.max(Math.floor(question.nowMs), question.atLeast + 1)
  const row = await db
    .insertInto('incarnations')
    .values({
      region: question.region,
      incarnation: least,
      is_first: question.atLeast === 0,
      request_id: question.requestId,
    })
    .onConflict((conflict) =>
      conflict.column('region').doUpdateSet({
        incarnation: sql`case when incarnations.request_id = excluded.request_id
          then incarnations.incarnation
          else greatest(incarnations.incarnation + 1, excluded.incarnation) end`,
        is_first: sql`incarnations.is_first and incarnations.request_id = excluded.request_id`,
        request_id: sql`excluded.request_id`,
        taken_at: sql`now()`,
      }),
    )
    .returning(['incarnation', 'is_first'])
    .executeTakeFirstOrThrow()
  return { incarnation: row.incarnation, first: row.is_first }
}

/** True when the region ever had an incarnation, as far as this store knows. */
export async function hasIncarnation(db: Db, region: RegionId): Promise<boolean> {
  const row = await db
    .selectFrom('incarnations')
    .select('region')
    .where('region', '=', region)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * A region without admin takes an incarnation by its own wall clock. One that never told of it may have been ahead
 * of this clock by so much: more than clocks that are kept in step ever are.
 */
const CLOCK_MARGIN_MS = 60_000

/**
 * Makes every incarnation void that a region had, or may have taken by itself until now; gives the least number
 * that is above them. The next one that it is given is higher.
 */
export async function voidIncarnations(
  trx: Trx,
  region: RegionId,
  known: { readonly heard: number; readonly nowMs: number },
): Promise<number> {
  const least = Math.max(known.heard + 1, Math.floor(known.nowMs) + CLOCK_MARGIN_MS)
  const { incarnation } = await trx
    .insertInto('incarnations')
    .values({ region, incarnation: least, is_first: false, request_id: 'void' })
    .onConflict((conflict) =>
      conflict.column('region').doUpdateSet({
        incarnation: sql`greatest(incarnations.incarnation + 1, excluded.incarnation)`,
        is_first: false,
        request_id: 'void',
        taken_at: sql`now()`,
      }),
    )
    .returning('incarnation')
    .executeTakeFirstOrThrow()
  return incarnation
}
