/**
 * Counts of eventual policies: what each region admitted of a counter in a window, as far as this one knows.
 *
 * A count is identified by counter, window, region and incarnation, and of two reports the larger stays: so lost,
 * late, doubled and reordered reports end alike, and a late one lands in its own window only. What is given back
 * lowers a region's own count at once and never what others know of it, so they may admit too little for it, not
 * too much. Own and foreign counts are kept apart; only own ones are published.
 */
import type { CounterId } from '../descriptor.ts'
import type { RegionId } from '../policy.ts'

/** Tokens admitted of one counter in the window that began at `startMs`, under one incarnation. */
export interface Count {
  readonly id: CounterId
  readonly startMs: number
  readonly used: number
}

export interface CountReport {
  readonly from: RegionId
  readonly incarnation: number
  readonly counts: readonly Count[]
}

/** Most counters that are exchanged. Those beyond are counted by each region alone, up to the limit in each. */
export const COUNTS_MAX = 10_000

/** Every so many publications tell all that is known of running windows, for whoever missed one. */
export const WHOLE_EVERY = 5

interface WindowCount {
  readonly startMs: number
  readonly used: number
}

/** Length of a counter's windows, ms; null for what is no eventual limit of this plane. */
export type WindowOf = (id: CounterId) => number | null

export class CountTable {
  /** Counters that began to be used and were not read since. */
  readonly #noticed = new Set<CounterId>()
  readonly #own = new Map<CounterId, WindowCount>()
  /** By counter, then by region and incarnation. */
  readonly #foreign = new Map<CounterId, Map<string, WindowCount>>()
  readonly #unpublished = new Set<CounterId>()
  #publications = 0

  /** Begins to exchange a counter, in the window that runs. */
  notice(id: CounterId): void {
    if (this.size < COUNTS_MAX) this.#noticed.add(id)
  }

  get size(): number {
    return this.#noticed.size + this.#own.size + this.#foreign.size
  }

  /** Takes in what this region counted. */
  countOwn(counts: readonly Count[]): void {
    for (const { id, startMs, used } of counts) {
      this.#noticed.delete(id)
      const known = this.#own.get(id)
      if (used === 0 || (known !== undefined && !isNews({ startMs, used }, known))) continue
      this.#own.set(id, { startMs, used })
      this.#unpublished.add(id)
    }
  }

  /** Takes in what a peer counted, in windows that run about `nowMs`; true when something is news. */
  hear(report: CountReport, nowMs: number, windowOf: WindowOf): boolean {
    let isAnyNews = false
    for (const count of report.counts) {
      const windowMs = windowOf(count.id)
      if (windowMs === null || !isRunning(count.startMs, windowMs, nowMs)) continue
      if (this.#hearOne(`${report.from} ${report.incarnation}`, count)) isAnyNews = true
    }
    return isAnyNews
  }

  /**
   * Counters that are used in the window that runs at `nowMs`, here or elsewhere, with what the others admitted: to be
   * told to the own Redis.
   */
  known(nowMs: number, windowOf: WindowOf): readonly Count[] {
    const counts: Count[] = []
    for (const id of new Set([...this.#noticed, ...this.#own.keys(), ...this.#foreign.keys()])) {
      const windowMs = windowOf(id)
      if (windowMs === null) continue
      const startMs = Math.floor(nowMs / windowMs) * windowMs
      const used = this.#foreignIn(id, startMs)
      const isUsedHere = this.#noticed.has(id) || this.#own.get(id)?.startMs === startMs
      if (used > 0 || isUsedHere) counts.push({ id, startMs, used })
    }
    return counts
  }

  /** Own counts that peers may not have. */
  publish(): readonly Count[] {
    this.#publications += 1
    const isWhole = this.#publications % WHOLE_EVERY === 0
    const counts: Count[] = []
    for (const [id, { startMs, used }] of this.#own) {
      if (isWhole || this.#unpublished.has(id)) counts.push({ id, startMs, used })
    }
    this.#unpublished.clear()
    return counts
  }

  /** Forgets windows that ended more than their own length ago, and what is no eventual limit any more. */
  forgetOld(nowMs: number, windowOf: WindowOf): void {
    const isOver = (id: CounterId, { startMs }: WindowCount): boolean => {
      const windowMs = windowOf(id)
      return windowMs === null || nowMs >= startMs + 2 * windowMs
    }
    for (const id of this.#noticed) if (windowOf(id) === null) this.#noticed.delete(id)
    for (const [id, count] of this.#own) if (isOver(id, count)) this.#own.delete(id)
    for (const [id, counts] of this.#foreign) {
      const left = [...counts].filter(([, count]) => !isOver(id, count))
      if (left.length === 0) this.#foreign.delete(id)
      else if (left.length < counts.size) this.#foreign.set(id, new Map(left))
    }
  }

  #hearOne(key: string, { id, startMs, used }: Count): boolean {
    const counts = this.#foreign.get(id) ?? new Map<string, WindowCount>()
    if (counts.size === 0 && this.size >= COUNTS_MAX) return false
    const known = counts.get(key)
    if (known !== undefined && !isNews({ startMs, used }, known)) return false
    this.#foreign.set(id, counts.set(key, { startMs, used }))
    return true
  }

  #foreignIn(id: CounterId, startMs: number): number {
    let sum = 0
    for (const count of this.#foreign.get(id)?.values() ?? []) {
      if (count.startMs === startMs) sum += count.used
    }
    return Math.min(sum, Number.MAX_SAFE_INTEGER)
  }
}

function isNews(count: WindowCount, known: WindowCount): boolean {
  if (count.startMs !== known.startMs) return count.startMs > known.startMs
  return count.used > known.used
}

/** A peer's clock may be in the next window already; anything further ahead would stay for ever. */
function isRunning(startMs: number, windowMs: number, nowMs: number): boolean {
  return startMs <= nowMs + windowMs && nowMs < startMs + 2 * windowMs
}
