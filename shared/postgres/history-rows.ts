/** What a change enters in the audit log and in the history of revisions, as rows of both by one statement. */
import { sql } from 'kysely'
import type { ChangeContext } from './audit.ts'
import { documentRows } from './json-rows.ts'
import type { Trx } from './plane.ts'

export interface HistoryRow {
  readonly action: string
  readonly kind: string
  readonly id: string
  readonly before: unknown
  readonly after: unknown
  /** It is an entry of the audit log. */
  readonly isAudited: boolean
  /** Where it stands in the history of its revision; null: it is in the log alone. */
  readonly position: number | null
}

/** Adds rows to both in their order. Most are in both, and their documents are written as JSON, sent and read once. */
export async function recordHistory(
  trx: Trx,
  context: ChangeContext & { readonly revision: number },
  rows: readonly HistoryRow[],
): Promise<void> {
  const { actor, requestId, reason, revision } = context
  const documents = rows.map(({ action, kind, id, before, after, isAudited, position }) => ({
    texts: [action, kind, id, isAudited ? 'audited' : '', position === null ? '' : `${position}`],
    before,
    after,
  }))
  await sql`
    with written as materialized (select * from ${documentRows(documents)}),
    history as (
      insert into revision_changes (revision, position, action, object_kind, object_id, before, after)
      select ${revision}::bigint, (texts ->> 4)::integer, texts ->> 0, texts ->> 1, texts ->> 2, before, after
      from written where texts ->> 4 <> ''
    )
    insert into audit (actor, action, object_kind, object_id, before, after, request_id, reason, revision)
    select ${actor}::text, texts ->> 0, texts ->> 1, texts ->> 2, before, after, ${requestId}::text, ${reason}::text, ${revision}::bigint
    from written where texts ->> 3 <> '' order by ord`.execute(trx)
}
