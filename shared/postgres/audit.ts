import { type Selectable, sql } from 'kysely'
import { documentRows } from './json-rows.ts'
import type { Db, Trx } from './plane.ts'
import type { AuditTable } from './tables.ts'

/** Who changes something, in which request and why. */
export interface ChangeContext {
  readonly actor: string
  readonly requestId: string
  readonly reason: string | null
}

/** Kinds of things that changes are about. */
export const OBJECT_KINDS = ['policy', 'domain', 'region', 'token'] as const
export type ObjectKind = (typeof OBJECT_KINDS)[number]

export interface AuditChange {
  readonly action: string
  readonly objectKind: ObjectKind
  readonly objectId: string
  readonly before: unknown
  readonly after: unknown
}

export interface AuditEntry extends AuditChange, ChangeContext {
  readonly seq: number
  readonly at: Date
  /** Revision of the plane that the change belongs to; null for one that regions need not know. */
  readonly revision: number | null
}

/**
 * Adds a row to the append-only log; takes the transaction of the change so that neither exists alone. Changes of the
 * plane leave this to `PlaneChange.record`.
 */
export async function recordAudit(
  trx: Trx,
  { actor, requestId, reason }: ChangeContext,
  { action, objectKind, objectId, before, after }: AuditChange,
): Promise<void> {
  await sql`
    insert into audit (actor, action, object_kind, object_id, before, after, request_id, reason)
    select ${actor}::text, texts ->> 0, texts ->> 1, texts ->> 2, before, after, ${requestId}::text, ${reason}::text
    from ${documentRows([{ texts: [action, objectKind, objectId], before, after }])}`.execute(trx)
}

/** Which entries are meant; all of it that is given must hold. */
export interface AuditFilter {
  readonly actor?: string | undefined
  readonly objectKind?: string | undefined
  readonly objectId?: string | undefined
  /** Only changes of this domain and its policies. */
  readonly domain?: string | undefined
  readonly since?: Date | undefined
  /** Only changes before then. */
  readonly until?: Date | undefined
}

/** Entries older than `beforeSeq` (null: the newest), newest first. */
export async function listAudit(
  db: Db,
  query: AuditFilter & { readonly beforeSeq: number | null; readonly limit: number },
): Promise<readonly AuditEntry[]> {
  let select = selectAudit(db, query).orderBy('seq', 'desc').limit(query.limit)
  if (query.beforeSeq !== null) select = select.where('seq', '<', query.beforeSeq)
  return (await select.execute()).map(toEntry)
}

/** Entries after `afterSeq`, oldest first: what an export or a follower reads next. */
export async function listAuditAfter(
  db: Db,
  query: AuditFilter & { readonly afterSeq: number; readonly limit: number },
): Promise<readonly AuditEntry[]> {
  const select = selectAudit(db, query).where('seq', '>', query.afterSeq)
  return (await select.orderBy('seq').limit(query.limit).execute()).map(toEntry)
}

function selectAudit(db: Db, { actor, objectKind, objectId, domain, since, until }: AuditFilter) {
  let select = db.selectFrom('audit').selectAll()
  if (actor !== undefined) select = select.where('actor', '=', actor)
  if (objectKind !== undefined) select = select.where('object_kind', '=', objectKind)
  if (objectId !== undefined) select = select.where('object_id', '=', objectId)
  if (since !== undefined) select = select.where('at', '>=', since)
  if (until !== undefined) select = select.where('at', '<', until)
  if (domain === undefined) return select
  // No pattern: a domain's name may hold characters that stand for any other in one.
  return select.where((eb) =>
    eb.or([
      eb('object_kind', '=', 'policy').and(sql<boolean>`starts_with(object_id, ${`${domain}/`})`),
      eb('object_kind', '=', 'domain').and('object_id', '=', domain),
    ]),
  )
}

function toEntry(row: Selectable<AuditTable>): AuditEntry {
  return {
    seq: row.seq,
    at: row.at,
    actor: row.actor,
    action: row.action,
    objectKind: OBJECT_KINDS.find((kind) => kind === row.object_kind) ?? 'policy',
    objectId: row.object_id,
    before: row.before,
    after: row.after,
    requestId: row.request_id,
    reason: row.reason,
    revision: row.revision,
  }
}
