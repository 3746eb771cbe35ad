import { underEmergency } from '../../shared/core/emergency.ts'
import type { Policy, RegionId } from '../../shared/core/policy.ts'
import { readChanges, revisionOf } from '../../shared/postgres/changes.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import { listRegions } from '../../shared/postgres/regions.ts'

const CHANGES_PER_READ = 200

/**
 * The plane as of some revision, in memory: what records are read against, also while Postgres is away.
 *
 * Bounded by the policies that operators create.
 */
export class PlaneCache {
  #revision = 0
  #members: readonly RegionId[] = []
  readonly #policies = new Map<number, Policy>()
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
    return [...this.#policies.values()].map((policy) => underEmergency(policy, nowMs))
  }

  /** Forgets everything, so that the next refresh reads the whole plane. */
  forget(): void {
    this.#revision = 0
    this.#policies.clear()
  }

  /** Reads what changed since the last time. Whatever was read stays when a later page fails. */
  async refresh(db: Db): Promise<void> {
    let after = this.#revision
    for (;;) {
      const page = await readChanges(db, { after, limit: CHANGES_PER_READ })
      for (const change of page.changes) {
        if (change.kind === 'policy') this.#policies.set(change.policy.id, change.policy)
        else this.#policies.delete(change.id)
        after = revisionOf(change)
      }
      if (page.hasMore) continue
      this.#members = (await listRegions(db)).map((region) => region.id)
      this.#revision = page.revision
      return
    }
  }
}
