/**
 * The second self-audit: whether all regions together admitted more of a hot key than its limit allows.
 *
 * What each region admitted of a key less what came back (the PN-counters of the records) runs through one reference
 * that drains at the limit's rate. Regions tell their counts late and not at one instant, so the reference forgives
 * what the limit refills in that time; it forgives it once, so anything that goes on shows, however little it is. A
 * count that falls began anew: it is measured from there, which can hide tokens but never invent any.
 */
import { tokensAtOnce } from '../../shared/core/base-split.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import { DRIFT, SILENT_AFTER_MS, TICK_MS } from '../../shared/core/ledger/constants.ts'
import { limitOf } from '../../shared/core/ledger/draft.ts'
import type { LedgerState } from '../../shared/core/ledger/state.ts'
import { COUNTS_EVERY_MS } from '../../shared/core/ledger/told-rows.ts'
import type { LedgerLimit, RecordRow, RegionRecord } from '../../shared/core/ledger/types.ts'
import { hasBurst, type RegionId } from '../../shared/core/policy.ts'

/** How late a count may be: told so often, on its way, and of a peer that is about to be silent. */
const LATE_MS = COUNTS_EVERY_MS + SILENT_AFTER_MS + 2 * TICK_MS

interface Counted {
  readonly incarnation: number
  readonly admitted: number
  readonly returned: number
}

interface Audited {
  level: number
  atMs: number
  readonly regions: Map<RegionId, Counted>
}

export class OverAdmission {
  #keys = new Map<CounterId, Audited>()
  #revision = -1
  #dueMs = Number.NEGATIVE_INFINITY
  #worst = 0

  /** Forgets what was admitted under other limits: those of one revision change too, when an emergency action ends. */
  beginAnew(): void {
    this.#revision = -1
  }

  /** What `observe` gave last. */
  get worst(): number {
    return this.#worst
  }

  /**
   * Tokens by which the worst key is beyond its limit; 0 for all that is well. Looks as often as counts are told.
   * While regions act on different policies nothing is judged: each is right by its own.
   */
  observe(ledger: LedgerState, own: RegionRecord, nowMs: number): number {
    const heard = [...ledger.heard.values()].filter(({ atMs }) => nowMs - atMs < SILENT_AFTER_MS)
    const records = [own, ...heard.map(({ record }) => record)]
    const revision = ledger.policyRevision
    const isOnePolicy = records.every((record) => record.policyRevision === revision)
    if (!isOnePolicy || revision !== this.#revision) {
      this.#keys = new Map()
      this.#revision = revision
      this.#worst = 0
      if (!isOnePolicy) return 0
    } else if (nowMs < this.#dueMs) return this.#worst
    this.#dueMs = nowMs + COUNTS_EVERY_MS
    this.#worst = this.#look(ledger, records, nowMs)
    return this.#worst
  }

  #look(ledger: LedgerState, records: readonly RegionRecord[], nowMs: number): number {
    const keys = new Map<CounterId, Audited>()
    for (const record of records) {
      for (const row of record.rows) {
        const audited = this.#keys.get(row.id) ?? { level: 0, atMs: nowMs, regions: new Map() }
        keys.set(row.id, audited)
        audited.level += admittedSince(audited, record, row)
      }
    }
    this.#keys = keys
    let worst = 0
    for (const [id, audited] of keys) {
      const limit = limitOf(ledger, id)
      if (limit !== null) worst = Math.max(worst, settle(audited, limit, nowMs))
    }
    return worst
  }
}

/** What one region admitted of one key since the last look; negative where more came back. */
function admittedSince({ regions }: Audited, { from, mark }: RegionRecord, row: RecordRow): number {
  const { admitted, returned } = row
  const before = regions.get(from)
  regions.set(from, { incarnation: mark.incarnation, admitted, returned })
  const goesOn =
    before !== undefined &&
    before.incarnation === mark.incarnation &&
    admitted >= before.admitted &&
    returned >= before.returned
  return goesOn ? admitted - before.admitted - (returned - before.returned) : 0
}

/** Drains the reference to `nowMs` and gives by how much it is beyond what the limit allows. */
function settle(audited: Audited, limit: LedgerLimit, nowMs: number): number {
  if (limit.algorithm === 'concurrency') return 0
  const perMs = (limit.capacity / limit.windowMs) * (1 + DRIFT)
  audited.level = Math.max(0, audited.level - (nowMs - audited.atMs) * perMs)
  audited.atMs = nowMs
  return Math.max(0, Math.floor(audited.level - atOnce(limit) - LATE_MS * perMs))
}

/** What may come in no time at all on top of the rate: a burst, or the ends of two windows that touch. */
function atOnce(limit: LedgerLimit): number {
  return hasBurst(limit.algorithm) ? limit.burst : 2 * tokensAtOnce(limit)
}
