/** The history of the plane: its revisions, and what documents were at any of them. */
import { sql } from 'kysely'
import type { Db } from './plane.ts'

export interface Revision {
  readonly revision: number
  /** It took every number from this one. */
  readonly first: number
  readonly at: Date
  readonly actor: string
  readonly reason: string | null
  readonly requestId: string
  readonly changeCount: number
}

export interface RevisionChange {
  readonly action: string
  readonly kind: string
  readonly id: string
  readonly before: unknown
  readonly after: unknown
}

/** What an object was at the one revision and at the other. */
export interface DocumentStates {
  readonly kind: string
  readonly id: string
  readonly before: unknown
  readonly after: unknown
}

/** Kinds of objects that a rollback brings back. */
export const DOCUMENT_KINDS = ['policy', 'override', 'domain'] as const

/** Revisions older than `before` (null: the newest), newest first. */
export async function listRevisions(
  db: Db,
  query: { readonly before: number | null; readonly limit: number },
): Promise<readonly Revision[]> {
  let select = selectRevisions(db).orderBy('number', 'desc').limit(query.limit)
  if (query.before !== null) select = select.where('number', '<', query.before)
  return (await select.execute()).map(toRevision)
}

/** The revision that took this number; null when none did, or before the history began. */
export async function findRevision(db: Db, number: number): Promise<Revision | null> {
  const row = await selectRevisions(db)
    .where('number', '>=', number)
    .where('first', '<=', number)
    .orderBy('number')
    .executeTakeFirst()
  return row === undefined ? null : toRevision(row)
}

/** What revisions did, in their order, at most `limit` of each. */
export async function listRevisionChanges(
  db: Db,
  revisions: readonly number[],
  limit: number,
): Promise<ReadonlyMap<number, readonly RevisionChange[]>> {
  const found = new Map<number, RevisionChange[]>()
  if (revisions.length === 0) return found
  const rows = await db
    .selectFrom('revision_changes')
    .where(sql<boolean>`revision = any(${[...revisions]}::bigint[])`)
    .where('position', '<', limit)
    .selectAll()
    .orderBy('revision')
    .orderBy('position')
    .execute()
  for (const row of rows) {
    const { action, object_kind: kind, object_id: id, before, after } = row
    const changes = found.get(row.revision) ?? []
    changes.push({ action, kind, id, before, after })
    found.set(row.revision, changes)
  }
  return found
}

/** Documents that changed after `from` until `to`, as they were at both. Without those that are the same again. */
export async function documentsBetween(
  db: Db,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<readonly DocumentStates[]> {
  const { rows } = await sql<DocumentStates>`
    with changed as (
      select * from revision_changes
      where revision > ${from} and revision <= ${to} and object_kind = any(${[...DOCUMENT_KINDS]}::text[])
    ), earliest as (
      select distinct on (object_kind, object_id) object_kind, object_id, before from changed
      order by object_kind, object_id, revision, position
    ), latest as (
      select distinct on (object_kind, object_id) object_kind, object_id, after from changed
      order by object_kind, object_id, revision desc, position desc
    )
    select object_kind as kind, object_id as id, before, after
    from earliest join latest using (object_kind, object_id)
    where before is distinct from after
    order by object_kind desc, object_id`.execute(db)
  return rows
}

/** How many objects of other kinds changed in the same time; they are told and never brought back. */
export async function countOthersBetween(
  db: Db,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<Readonly<Record<string, number>>> {
  const rows = await db
    .selectFrom('revision_changes')
    .where('revision', '>', from)
    .where('revision', '<=', to)
    .where('object_kind', 'not in', [...DOCUMENT_KINDS])
    .groupBy('object_kind')
    .orderBy('object_kind')
    .select(['object_kind', sql<number>`count(distinct object_id)::int`.as('count')])
    .execute()
  return Object.fromEntries(rows.map(({ object_kind: kind, count }) => [kind, count]))
}

function selectRevisions(db: Db) {
  return db
    .selectFrom('revisions')
    .selectAll()
    .select((eb) =>
      eb
        .selectFrom('revision_changes')
        .whereRef('revision', '=', 'revisions.number')
        .select(sql<number>`coalesce(max(position) + 1, 0)::int`.as('count'))
        .as('change_count'),
    )
}

type Row = Awaited<ReturnType<ReturnType<typeof selectRevisions>['execute']>>[number]

function toRevision(row: Row): Revision {
  return {
    revision: row.number,
    first: row.first,
    at: row.at,
    actor: row.actor,
    reason: row.reason,
    requestId: row.request_id,
    changeCount: row.change_count ?? 0,
  }
}
