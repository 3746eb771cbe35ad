import type { CheckTokens } from '../../shared/core/check-tokens.ts'
import type { CountReport } from '../../shared/core/estimate/count-table.ts'
import { isNewer } from '../../shared/core/ledger/state.ts'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RegionId } from '../../shared/core/policy.ts'
import { REGIONS_MAX } from '../../shared/core/units.ts'
import type { TraceFields } from '../../shared/runtime/tracing/tracer.ts'
import type { Plane } from './plane.ts'
import type { StockAnswer } from './stock-book.ts'

/** Reports of counts that may wait: some from each region of the largest plane. */
const REPORTS_MAX = 4 * REGIONS_MAX

/** Tokens for checks, and when admin was asked for them by this process's clock. */
export interface HeardTokens {
  readonly tokens: CheckTokens
  readonly askedAtMs: number
}

export type Arrival =
  | { readonly kind: 'record'; readonly record: RegionRecord }
  | { readonly kind: 'plane'; readonly plane: Plane; readonly trace?: TraceFields | undefined }
  /** Somebody needs a whole record of this region. */
  | { readonly kind: 'question' }
  /** What a peer counted of eventual policies. */
  | { readonly kind: 'counts'; readonly report: CountReport }
  /** All tokens for checks, as admin told them last. */
  | ({ readonly kind: 'tokens' } & HeardTokens)
  /** What admin gave of long windows. */
  | { readonly kind: 'stock'; readonly answer: StockAnswer }

/**
 * What arrived for the daemon while it was busy, bounded by nature: the newest record of each peer and the
 * newest plane and tokens. Everything in them is cumulative, so what a newer one replaced is not missed.
 */
export class Inbox {
  readonly #records = new Map<RegionId, RegionRecord>()
  readonly #onArrival: () => void
  #plane: Plane | null = null
  /** Of the change that brought it. */
  #planeTrace: TraceFields | undefined
  #tokens: HeardTokens | null = null
  #isAsked = false
  /** One question is asked after the other, so there are never many. */
  readonly #stock: StockAnswer[] = []
  readonly #counts: CountReport[] = []

  constructor(onArrival: () => void) {
    this.#onArrival = onArrival
  }

  /** Ignores a record that is older than one that waits already, and one peer too many. */
  putRecord(record: RegionRecord): void {
    const waiting = this.#records.get(record.from)
    if (waiting === undefined && this.#records.size >= REGIONS_MAX) return
    if (waiting !== undefined && !isNewer(record.mark, waiting.mark)) return
    this.#records.set(record.from, record)
    this.#onArrival()
  }

  putPlane(plane: Plane, trace?: TraceFields): void {
    if (this.#plane !== null && plane.revision < this.#plane.revision) return
    this.#plane = plane
    this.#planeTrace = trace
    this.#onArrival()
  }

  putTokens(tokens: HeardTokens): void {
    this.#tokens = tokens
    this.#onArrival()
  }

  putQuestion(): void {
    this.#isAsked = true
    this.#onArrival()
  }

  putStock(answer: StockAnswer): void {
    this.#stock.push(answer)
    this.#onArrival()
  }

  /** Dropped when too many wait: a peer tells all that it counted every few seconds. */
  putCounts(report: CountReport): void {
    if (this.#counts.length >= REPORTS_MAX) return
    this.#counts.push(report)
    this.#onArrival()
  }

  /** The plane first: a record may speak of limits that it brings. */
  take(): Arrival | null {
    const plane = this.#plane
    if (plane !== null) {
      this.#plane = null
      return { kind: 'plane', plane, trace: this.#planeTrace }
    }
    const tokens = this.#tokens
    if (tokens !== null) {
      this.#tokens = null
      return { kind: 'tokens', ...tokens }
    }
    if (this.#isAsked) {
      this.#isAsked = false
      return { kind: 'question' }
    }
    const answer = this.#stock.shift()
    if (answer !== undefined) return { kind: 'stock', answer }
    const report = this.#counts.shift()
    if (report !== undefined) return { kind: 'counts', report }
    const [record] = this.#records.values()
    if (record === undefined) return null
    this.#records.delete(record.from)
    return { kind: 'record', record }
  }

  get isEmpty(): boolean {
    const isQuiet = this.#plane === null && this.#tokens === null && !this.#isAsked
    const isEmpty = this.#stock.length + this.#counts.length === 0
    return isQuiet && isEmpty && this.#records.size === 0
  }
}
