import { sql } from 'kysely'
import type { RegionId } from '../core/policy.ts'
import type { Db } from './plane.ts'

export type Resolution = 'minute' | 'hour'

/** One row of the history of a limit in a region. */
export interface StoredBucket {
  readonly limitId: number
  readonly usageEpoch: number
  readonly region: RegionId
  readonly startsMs: number
  /** The window whose count until the bucket's end this is; null: amounts of the bucket alone. */
  readonly window: number | null
  readonly admitted: number
  readonly denied: number
  readonly returned: number
  readonly unmet: number
}

/** Rows of one statement: some hundred kilobytes. */
const ROWS_PER_WRITE = 2_000

/** How a row without a window is stored: a primary key has no nulls. */
const NO_WINDOW = -1

const HOUR_MS = 3_600_000

/**
 * Adds minutes, each figure the larger of what is there and what is given: idempotent, in any order, by any number of
 * writers.
 */
export async function writeMinutes(db: Db, buckets: readonly StoredBucket[]): Promise<void> {
  for (let at = 0; at < buckets.length; at += ROWS_PER_WRITE) {
    const rows = buckets.slice(at, at + ROWS_PER_WRITE).map((bucket) => ({
      ...bucket,
      window: bucket.window ?? NO_WINDOW,
      startsAt: new Date(bucket.startsMs).toISOString(),
    }))
    await sql`
      insert into usage_history as kept
        (resolution, limit_id, usage_epoch, region, starts_at, usage_window, admitted, denied, returned, unmet)
      select 'minute', "limitId", "usageEpoch", region, "startsAt", "window", admitted, denied, returned, unmet
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given(
        "limitId" bigint, "usageEpoch" bigint, region text, "startsAt" timestamptz, "window" bigint,
        admitted bigint, denied bigint, returned bigint, unmet bigint)
      ${KEEP_LARGER}
    `.execute(db)
  }
}

/** Sums the minutes from `fromMs` to `toMs` up to hours; idempotent. Both are taken down to whole hours. */
export async function writeHours(db: Db, fromMs: number, toMs: number): Promise<void> {
  const from = new Date(Math.floor(fromMs / HOUR_MS) * HOUR_MS)
  const to = new Date(Math.floor(toMs / HOUR_MS) * HOUR_MS + HOUR_MS)
  await sql`
    insert into usage_history as kept
      (resolution, limit_id, usage_epoch, region, starts_at, usage_window, admitted, denied, returned, unmet)
    select 'hour', limit_id, usage_epoch, region, date_trunc('hour', starts_at, 'UTC') as hour, usage_window,
      ${summed('admitted')}, ${summed('denied')}, ${summed('returned')}, ${summed('unmet')}
    from usage_history
    where resolution = 'minute' and starts_at >= ${from} and starts_at < ${to}
    group by limit_id, usage_epoch, region, hour, usage_window
    ${KEEP_LARGER}
  `.execute(db)
}

/** A count until some minute's end is part of the count until a later one. */
function summed(figure: 'admitted' | 'denied' | 'returned' | 'unmet') {
  const column = sql.ref(figure)
  return sql`least(case when usage_window = ${sql.lit(NO_WINDOW)} then sum(${column}) else max(${column}) end,
    ${sql.lit(Number.MAX_SAFE_INTEGER)})::bigint`
}

const KEEP_LARGER = sql`
  on conflict (resolution, limit_id, usage_epoch, starts_at, region, usage_window) do update set
    admitted = greatest(kept.admitted, excluded.admitted),
    denied = greatest(kept.denied, excluded.denied),
    returned = greatest(kept.returned, excluded.returned),
    unmet = greatest(kept.unmet, excluded.unmet)
  where kept.admitted < excluded.admitted or kept.denied < excluded.denied
    or kept.returned < excluded.returned or kept.unmet < excluded.unmet`

export interface HistoryQuery {
  readonly resolution: Resolution
  readonly limits: readonly { readonly limitId: number; readonly usageEpoch: number }[]
  readonly fromMs: number
  readonly toMs: number
}

/** Buckets of the limits that start from `fromMs` to before `toMs`, oldest first. */
export async function readHistory(db: Db, query: HistoryQuery): Promise<readonly StoredBucket[]> {
  if (query.limits.length === 0) return []
  const rows = await db
    .selectFrom('usage_history')
    .selectAll()
    .where('resolution', '=', query.resolution)
    .where((eb) =>
      eb.or(
        query.limits.map(({ limitId, usageEpoch }) =>
          eb.and([eb('limit_id', '=', limitId), eb('usage_epoch', '=', usageEpoch)]),
        ),
      ),
    )
    .where('starts_at', '>=', new Date(query.fromMs))
    .where('starts_at', '<', new Date(query.toMs))
    .orderBy('starts_at')
    .execute()
  return rows.map((row) => ({
    limitId: row.limit_id,
    usageEpoch: row.usage_epoch,
    region: row.region,
    startsMs: row.starts_at.getTime(),
    window: row.usage_window === NO_WINDOW ? null : row.usage_window,
    admitted: row.admitted,
    denied: row.denied,
    returned: row.returned,
    unmet: row.unmet,
  }))
}

/**
 * The count of one long window in each region until `beforeMs`, by the newest bucket that tells it: what the first
 * bucket after `beforeMs` is to be compared with.
 */
export async function readCounts(
  db: Db,
  of: {
    readonly resolution: Resolution
    readonly limitId: number
    readonly usageEpoch: number
    readonly window: number
    readonly beforeMs: number
  },
): Promise<readonly StoredBucket[]> {
  const rows = await db
    .selectFrom('usage_history')
    .where('resolution', '=', of.resolution)
    .where('limit_id', '=', of.limitId)
    .where('usage_epoch', '=', of.usageEpoch)
    .where('usage_window', '=', of.window)
    .where('starts_at', '<', new Date(of.beforeMs))
    .groupBy('region')
    .select(({ fn }) => [
      'region',
      fn.max('starts_at').as('starts_at'),
      fn.max('admitted').as('admitted'),
      fn.max('denied').as('denied'),
      fn.max('returned').as('returned'),
    ])
    .execute()
  return rows.map(({ starts_at, ...row }) => ({
    ...row,
    limitId: of.limitId,
    usageEpoch: of.usageEpoch,
    window: of.window,
    startsMs: starts_at.getTime(),
    unmet: 0,
  }))
}

/** Forgets at most `most` buckets that started before `beforeMs`; true when there may be more. */
export async function forgetHistory(
  db: Db,
  of: { readonly resolution: Resolution; readonly beforeMs: number; readonly most: number },
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    delete from usage_history where ctid in (
      select ctid from usage_history
      where resolution = ${of.resolution} and starts_at < ${new Date(of.beforeMs)} limit ${of.most})
  `.execute(db)
  return Number(numAffectedRows ?? 0) === of.most
}

/** True when `holder` is the admin that writes the history for the next `leaseMs`. By the database's clock alone. */
export async function holdHistory(db: Db, holder: string, leaseMs: number): Promise<boolean> {
  const { rows } = await sql`
    insert into usage_history_writer as present (holder, lease_until)
    values (${holder}, now() + ${`${leaseMs} milliseconds`}::interval)
    on conflict (is_only) do update set holder = excluded.holder, lease_until = excluded.lease_until
    where present.holder = excluded.holder or present.lease_until < now()
    returning holder
  `.execute(db)
  return rows.length === 1
}
