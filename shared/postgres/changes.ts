import type { Policy } from '../core/policy.ts'
import { type Db, type PlaneStamp, readStamp } from './plane.ts'
import { policyOf, type StoredPolicy, selectPolicies, toPolicy } from './policy-rows.ts'

export interface RemovedPolicy {
  readonly kind: 'removed'
  readonly id: number
  readonly revision: number
}

export type StoredChange = { readonly kind: 'policy'; readonly policy: Policy } | RemovedPolicy

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
  const { stamp, policies, removed } = await readStoredChanges(db, query)
  const found = { policies: policies.map(policyOf), removed }
  return changesOf(stamp.revision, found, query.limit)
}

/** Changes of each kind, at most `limit` of each. */
export interface FoundChanges<P> {
  /** In the order of their revisions, as the removed ones are. */
  readonly policies: readonly P[]
  readonly removed: readonly RemovedPolicy[]
}

/** What changed after `after`, as it is stored; everything up to `stamp` is in it or before `after`. */
export async function readStoredChanges(
  db: Db,
  query: ChangesQuery,
): Promise<FoundChanges<StoredPolicy> & { readonly stamp: PlaneStamp }> {
  const stamp = await readStamp(db)
  const rows = await selectPolicies(db)
    .where('revision', '>', query.after)
    .orderBy('revision')
    .limit(query.limit)
    .execute()
  return { stamp, policies: rows.map(toPolicy), removed: await readRemoved(db, query) }
}

/** The first `limit` of what was found, both kinds in one order. */
export function changesOf(
  revision: number,
  { policies, removed }: FoundChanges<Policy>,
  limit: number,
): StoredChanges {
  const changes = [
    ...policies.map((policy): StoredChange => ({ kind: 'policy', policy })),
    ...removed,
  ].sort((one, other) => revisionOf(one) - revisionOf(other))
  return {
    revision,
    changes: changes.slice(0, limit),
    hasMore: policies.length === limit || changes.length >= limit,
  }
}

export function revisionOf(change: StoredChange): number {
  return change.kind === 'policy' ? change.policy.revision : change.revision
}

export async function readRemoved(db: Db, query: ChangesQuery): Promise<readonly RemovedPolicy[]> {
  const rows = await db
    .selectFrom('policy_tombstones')
    .where('revision', '>', query.after)
    .orderBy('revision')
    .limit(query.limit)
    .select(['policy_id', 'revision'])
    .execute()
  return rows.map((row) => ({ kind: 'removed', id: row.policy_id, revision: row.revision }))
}
