import { underEmergency } from '../../shared/core/emergency.ts'
import type { Policy, RegionId } from '../../shared/core/policy.ts'
import { readStoredChanges } from '../../shared/postgres/changes.ts'
import { type Db, isSameStamp, type PlaneStamp, readStamp } from '../../shared/postgres/plane.ts'
import type { PolicyMemory } from '../../shared/postgres/plane-change.ts'
import type { PolicyKey } from '../../shared/postgres/policies.ts'
import { nameOf } from '../../shared/postgres/policy-batch.ts'
import { policyOf, type StoredPolicy } from '../../shared/postgres/policy-rows.ts'
import { listRegions } from '../../shared/postgres/regions.ts'

/** Policies of one statement: some megabytes of rows, which hold up other requests for a tenth of a second. */
const CHANGES_PER_READ = 1_000

/** A policy as it is stored, and what regions are told of it: one object, so that it is written as JSON but once. */
interface Known {
  readonly stored: StoredPolicy
  readonly policy: Policy
}

/**
 * The plane as of some revision, in memory: what records are read against, also while Postgres is away, and what large
 * readings need not ask Postgres for as long as its revision is the same.
 *
 * Bounded by the policies that operators create.
 */
export class PlaneCache implements PolicyMemory {
  #revision = 0
  /** The state that all of it is of; null while it is of several, or may be. */
  #stamp: PlaneStamp | null = null
  #members: readonly RegionId[] = []
  readonly #policies = new Map<number, Known>()
  #byName: ReadonlyMap<string, StoredPolicy> | null = null
  #byRevision: readonly Policy[] | null = null
  readonly #wallMs: () => number

  constructor(wallMs: () => number) {
    this.#wallMs = wallMs
  }

  get revision(): number {
    return this.#revision
  }

  get members(): readonly RegionId[] {
    return this.#members
  }

  /** The policies as they are in force now, under the emergency actions of now. */
  get policies(): Iterable<Policy> {
    const nowMs = this.#wallMs()
    return [...this.#policies.values()].map(({ policy }) => underEmergency(policy, nowMs))
  }

  /** Whether what is here is the plane at `stamp`. */
  isAt(stamp: PlaneStamp): boolean {
    return isSameStamp(this.#stamp, stamp)
  }

  /** Whether `stamp` is of another history: the same revision, and made at another time. */
  isOther(stamp: PlaneStamp): boolean {
    return this.#stamp?.revision === stamp.revision && !this.isAt(stamp)
  }

  policiesAt(stamp: PlaneStamp): ReadonlyMap<string, StoredPolicy> | null {
    if (!this.isAt(stamp)) return null
    this.#byName ??= new Map(
      [...this.#policies.values()]
        .map(({ stored }) => stored)
        .sort(byKey)
        .map((policy) => [nameOf(policy), policy]),
    )
    return this.#byName
  }

  /** What regions are told of policies that changed after `after`, in the order of their revisions; null when it is of another state. */
  changedAt(
    stamp: PlaneStamp,
    query: { readonly after: number; readonly limit: number },
  ): readonly Policy[] | null {
    if (!this.isAt(stamp)) return null
    this.#byRevision ??= [...this.#policies.values()]
      .map(({ policy }) => policy)
      .sort((one, other) => one.revision - other.revision)
    const start = this.#byRevision.findIndex(({ revision }) => revision > query.after)
    return start === -1 ? [] : this.#byRevision.slice(start, start + query.limit)
  }

  /** Forgets everything, so that the next refresh reads the whole plane. */
  forget(): void {
    this.#revision = 0
    this.#policies.clear()
    this.#change()
  }

  /** Reads what changed since the last time. Whatever was read stays when a later page fails. */
  async refresh(db: Db): Promise<void> {
    let after = this.#revision
    this.#change()
    for (;;) {
      const page = await readStoredChanges(db, { after, limit: CHANGES_PER_READ })
      const { stamp, policies, removed } = page
      for (const stored of policies) {
        this.#policies.set(stored.id, { stored, policy: policyOf(stored) })
      }
      for (const { id } of removed) this.#policies.delete(id)
      const isMore = [policies, removed].some(({ length }) => length === CHANGES_PER_READ)
      after = pageEnd(page, after)
      if (isMore) continue
      this.#members = (await listRegions(db)).map((region) => region.id)
      this.#revision = stamp.revision
      // What was committed meanwhile may have been read too.
      if (isSameStamp(stamp, await readStamp(db))) this.#stamp = stamp
      return
    }
  }

  #change(): void {
    this.#stamp = null
    this.#byName = null
    this.#byRevision = null
  }
}

/** The revision up to which a page has all changes: where one kind has more of them, no further than its last. */
function pageEnd(
  { policies, removed }: Awaited<ReturnType<typeof readStoredChanges>>,
  after: number,
): number {
  const ends = [policies, removed].map((found) => ({
    isFull: found.length === CHANGES_PER_READ,
    last: found.at(-1)?.revision ?? after,
  }))
  const full = ends.filter(({ isFull }) => isFull)
  return full.length > 0
    ? Math.min(...full.map(({ last }) => last))
    : Math.max(...ends.map(({ last }) => last))
}

/** As Postgres compares texts under the collation "C": names are ASCII. */
function byKey(one: PolicyKey, other: PolicyKey): number {
  if (one.domain !== other.domain) return one.domain < other.domain ? -1 : 1
  return one.name < other.name ? -1 : 1
}
