/** Regions that were removed, and what the ones that stayed must still know of them. */
import { sql } from 'kysely'
import type { Membership } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { Db, Trx } from './plane.ts'
import { listRegions } from './regions.ts'

/**
 * How long a removed region goes on being named after every other was heard to have applied its removal: several
 * times a lender's wait, so that no step of this server's clock makes it shorter than that.
 */
export const FORMER_FOR_S = 60

export interface Departure {
  readonly region: RegionId
  /** The plane's revision from which on it is no member. */
  readonly revision: number
  readonly leastIncarnation: number | null
}

/** Who takes part in the plane. Read after the revision that it is told with, so that it is never older. */
export async function readMembership(db: Db): Promise<Membership> {
  const members = (await listRegions(db)).map((region) => region.id)
  const rows = await db
    .selectFrom('departures')
    .select(['region', 'least_incarnation'])
    .select(
      sql<boolean>`settled_at is null or settled_at > now() - make_interval(secs => ${FORMER_FOR_S})`.as(
        'is_recent',
      ),
    )
    .orderBy('region')
    .execute()
  return {
    members,
    formerMembers: rows
      .filter((row) => row.is_recent && !members.includes(row.region))
      .map((row) => row.region),
    leastIncarnations: Object.fromEntries(
      rows.flatMap(({ region, least_incarnation: least }) =>
        least === null ? [] : [[region, least]],
      ),
    ),
  }
}

/** Notes that a region is no member from a revision on. What was known of an earlier departure of it stays. */
export async function recordDeparture(trx: Trx, departure: Departure): Promise<void> {
  const { region, revision, leastIncarnation: least_incarnation } = departure
  await trx
    .insertInto('departures')
    .values({ region, revision, least_incarnation, settled_at: null })
    .onConflict((conflict) =>
      conflict.column('region').doUpdateSet({
        revision,
        settled_at: null,
        least_incarnation: sql`greatest(departures.least_incarnation, excluded.least_incarnation)`,
      }),
    )
    .execute()
}

/** Departures that not every region is known to have applied yet. */
export async function listUnsettledDepartures(db: Db): Promise<readonly Departure[]> {
  const rows = await db
    .selectFrom('departures')
    .where('settled_at', 'is', null)
    .select(['region', 'revision', 'least_incarnation as leastIncarnation'])
    .execute()
  return rows
}

export async function settleDepartures(db: Db, regions: readonly RegionId[]): Promise<void> {
  await db
    .updateTable('departures')
    .set({ settled_at: new Date() })
    .where('region', 'in', regions)
    .where('settled_at', 'is', null)
    .execute()
}
