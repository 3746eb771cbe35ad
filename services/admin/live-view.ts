import { isNewer } from '../../shared/core/ledger/state.ts'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { Limit, Policy, RegionId } from '../../shared/core/policy.ts'
import {
  createUsageTable,
  mergeForeign,
  pruneUsage,
  type UsageRules,
  usageOf,
  type WindowUsage,
} from '../../shared/core/usage/usage-table.ts'
import type { Adoption } from './adoptions.ts'
import { UsageHistory } from './history/usage-history.ts'
import { MarkTimes } from './mark-times.ts'
import { withWholeKeys } from './whole-keys.ts'

/** Records come each second; a region that was silent for this long is not reporting. */
export const SILENT_AFTER_MS = 3_500

/** Admin is no region: it counts nothing itself and every report is another's. */
const NO_REGION = ''

export interface HeardRecord {
  readonly record: RegionRecord
  readonly heardAtMs: number
}

export interface RegionHealth {
  readonly isReporting: boolean
  readonly ageMs: number | null
  readonly appliedRevision: number | null
  readonly isRecovering: boolean
  readonly incarnation: number | null
}

/**
 * What the regions said last, in memory: the newest record of each, and usage merged over the windows kept.
 *
 * Bounded: one record of each registered region, usage of known limits over a fixed number of windows, and a history
 * of the busiest. Starts
 * empty and is complete again once each region has published, which it does every second.
 */
export class LiveView {
  readonly history = new UsageHistory()
  readonly marks = new MarkTimes()
  readonly #heard = new Map<RegionId, HeardRecord>()
  #usage = createUsageTable(NO_REGION)
  #limits = new Map<number, Limit>()
  /** Those whose keys are counted in parts; of most planes none. */
  #sharded = new Map<number, Limit>()
  #members: ReadonlySet<RegionId> = new Set()

  /**
   * Takes in a record; false for one that changes nothing: of a region that is not registered, or not newer
   * than the last of its region.
   */
  hear(record: RegionRecord, nowMs: number): boolean {
    if (!this.#members.has(record.from)) return false
    const last = this.#heard.get(record.from)
    if (last !== undefined && !isNewer(record.mark, last.record.mark)) return false
    const shown = withWholeKeys(record, this.#sharded)
    this.#heard.set(record.from, { record: shown, heardAtMs: nowMs })
    this.marks.note(record.from, record.mark, nowMs)
    const before = this.#usage
    this.#usage = mergeForeign(
      before,
      { region: record.from, incarnation: record.mark.incarnation, rows: record.usage },
      this.#rules(nowMs),
    )
    this.history.take({ record, before, after: this.#usage, limits: this.#limits, nowMs })
    return true
  }

  /** Keeps to the limits and regions that there are. */
  follow(plane: { policies: Iterable<Policy>; members: readonly RegionId[] }, nowMs: number): void {
    this.#limits = new Map()
    for (const policy of plane.policies) {
      for (const limit of policy.limits) this.#limits.set(limit.id, limit)
    }
    this.#sharded = new Map([...this.#limits].filter(([, { shards }]) => shards > 1))
    this.#members = new Set(plane.members)
    for (const region of this.#heard.keys()) {
      if (this.#members.has(region)) continue
      this.#heard.delete(region)
      this.marks.forget(region)
    }
    this.prune(nowMs)
  }

  /** Forgets usage of windows that ended too long ago. */
  prune(nowMs: number): void {
    this.#usage = pruneUsage(this.#usage, this.#rules(nowMs))
    this.history.prune(this.#limits, this.#members, nowMs)
  }

  /** The newest record of a region, each key that is counted in parts as one. */
  heard(region: RegionId): HeardRecord | null {
    return this.#heard.get(region) ?? null
  }

  health(region: RegionId, nowMs: number): RegionHealth {
    const heard = this.#heard.get(region)
    const ageMs = heard === undefined ? null : Math.max(0, Math.round(nowMs - heard.heardAtMs))
    return {
      isReporting: ageMs !== null && ageMs <= SILENT_AFTER_MS,
      ageMs,
      appliedRevision: heard?.record.policyRevision ?? null,
      isRecovering: heard?.record.recovering ?? false,
      incarnation: heard?.record.mark.incarnation ?? null,
    }
  }

  /** The highest incarnation of a region that it or anyone else speaks of; 0 when nobody does. */
  knownIncarnation(region: RegionId): number {
    let known = 0
    for (const { record } of this.#heard.values()) {
      const told = record.pairs[region]
      const own = record.from === region ? record.mark.incarnation : 0
      const acked = record.acks[region]?.incarnation ?? 0
      known = Math.max(known, own, acked, told?.borrow[0] ?? 0, told?.lend[1] ?? 0)
    }
    return known
  }

  /** The newest revision that a region has applied; 0 when none was heard. */
  newestRevision(): number {
    return Math.max(0, ...[...this.#heard.values()].map(({ record }) => record.policyRevision))
  }

  usageOf(limit: Limit, window: number): WindowUsage {
    return usageOf(this.#usage, { limitId: limit.id, usageEpoch: limit.usageEpoch, window })
  }

  /** Adoptions of open epochs that the newest records speak of. */
  adoptions(members: readonly RegionId[]): readonly Adoption[] {
    const open = [...this.#limits.values()].filter((limit) => limit.previousBase !== null)
    return members.flatMap((region) => {
      const adopted = this.#heard.get(region)?.record.adopted ?? {}
      return open
        .filter((limit) => (adopted[String(limit.id)] ?? 0) >= limit.epoch)
        .map((limit) => ({ region, limitId: limit.id, epoch: limit.epoch }))
    })
  }

  #rules(nowMs: number): UsageRules {
    return { limits: this.#limits, wallMs: nowMs }
  }
}
