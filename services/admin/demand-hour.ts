import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'

/** The hour is kept in parts of this length, so that it moves on smoothly enough and stays small. */
const PART_MS = 5 * 60_000

const PARTS = 12

/** Nothing is said of less than this: the first minutes of an admin are no mix to move a base by. */
const OBSERVED_MIN_MS = 15 * 60_000

interface Told {
  readonly incarnation: number
  /** Tokens wanted by limit, usage epoch and window, as the last record said. */
  readonly windows: ReadonlyMap<string, number>
}

/**
 * What each region wanted of each limit in the last hour, from the usage in its records.
 *
 * Denied tokens count up to as many as were admitted: a region that is short is worth more than it got, and one whose
 * callers only repeat themselves is not worth more and more. Memory only; bounded by the limits asked for.
 */
export class DemandHour {
  readonly #told = new Map<RegionId, Told>()
  readonly #parts = new Map<number, Map<RegionId, Map<number, number>>>()
  readonly #sinceMs: number

  constructor(nowMs: number) {
    this.#sinceMs = nowMs
  }

  /** Counts what a record adds to the one before it of the same region, for limits that `isWatched`. */
  note(record: RegionRecord, isWatched: (limitId: number) => boolean, nowMs: number): void {
    const before = this.#told.get(record.from)
    const { incarnation } = record.mark
    const windows = new Map<string, number>()
    for (const { limitId, usageEpoch, window, admitted, denied } of record.usage) {
      if (!isWatched(limitId)) continue
      const key = `${limitId} ${usageEpoch} ${window}`
      const wanted = admitted + Math.min(denied, admitted)
      windows.set(key, wanted)
      // What the first record of a life tells may be of any age.
      if (before?.incarnation !== incarnation) continue
      this.#add(limitId, record.from, Math.max(0, wanted - (before.windows.get(key) ?? 0)), nowMs)
    }
    this.#told.set(record.from, { incarnation, windows })
  }

  /** Tokens wanted by region in the last hour; null before enough was observed. */
  demandOf(limitId: number, nowMs: number): Readonly<Record<RegionId, number>> | null {
    if (nowMs - this.#sinceMs < OBSERVED_MIN_MS) return null
    const first = partOf(nowMs) - PARTS
    const regions = this.#parts.get(limitId) ?? new Map<RegionId, Map<number, number>>()
    return Object.fromEntries(
      [...regions].map(([region, parts]) => {
        for (const part of parts.keys()) if (part <= first) parts.delete(part)
        return [region, [...parts.values()].reduce((sum, tokens) => sum + tokens, 0)]
      }),
    )
  }

  /** Forgets limits that are not watched any more. */
  keep(isWatched: (limitId: number) => boolean): void {
    for (const limitId of this.#parts.keys()) if (!isWatched(limitId)) this.#parts.delete(limitId)
  }

  #add(limitId: number, region: RegionId, tokens: number, nowMs: number): void {
    if (tokens === 0) return
    const regions = this.#parts.get(limitId) ?? new Map<RegionId, Map<number, number>>()
    const parts = regions.get(region) ?? new Map<number, number>()
    parts.set(partOf(nowMs), (parts.get(partOf(nowMs)) ?? 0) + tokens)
    this.#parts.set(limitId, regions.set(region, parts))
  }
}

function partOf(nowMs: number): number {
  return Math.floor(nowMs / PART_MS)
}
