import type { Policy } from '../core/policy.ts'
import { type Db, readRevision } from './plane.ts'
import { policyOf, selectPolicies, toPolicy } from './policy-rows.ts'

export type StoredChange =
  | { readonly kind: 'policy'; readonly policy: Policy }
  | { readonly kind: 'removed'; readonly id: number; readonly revision: number }

export interface StoredChanges {
  /** The plane's revision, read before the rest: everything up to it is in `changes` or before `after`. */
  readonly revision: number
  readonly changes: readonly StoredChange[]
  /** True when there may be more after the last of `changes`. */
  readonly hasMore: boolean
}

export interface ChangesQuery {
  readonly after: number
  readonly limit: number
}

/** At most `limit` changes with a revision above `after`, in the order of their revisions. */
export async function readChanges(db: Db, query: ChangesQuery): Promise<StoredChanges> {
  const revision = await readRevision(db)
  const rows = await selectPolicies(db)
    .where('revision', '>', query.after)
    .orderBy('revision')
    .limit(query.limit)
    .execute()
  const removed = await readRemoved(db, query)
  const policies = rows.map(
    (row): StoredChange => ({ kind: 'policy', policy: policyOf(toPolicy(row)) }),
  )
  const changes = [...policies, ...removed].sort((a, b) => revisionOf(a) - revisionOf(b))
  return {
    revision,
    changes: changes.slice(0, query.limit),
    hasMore: policies.length === query.limit || changes.length >= query.limit,
  }
}

export function revisionOf(change: StoredChange): number {
  return change.kind === 'policy' ? change.policy.revision : change.revision
}

async function readRemoved(db: Db, query: ChangesQuery): Promise<readonly StoredChange[]> {
  const rows = await db
    .selectFrom('policy_tombstones')
    .where('revision', '>', query.after)
    .orderBy('revision')
    .limit(query.limit)
    .select(['policy_id', 'revision'])
    .execute()
  return rows.map((row) => ({ kind: 'removed', id: row.policy_id, revision: row.revision }))
}
