/**
 * What this daemon knows and wants of long windows: which are open, and which counters run low.
 *
 * The counters themselves are in Redis, so nothing here must survive: a daemon that starts learns of the open windows
 * from the region's policies, and of a counter when it runs low. What admin opened stays true in any session; an
 * answer about a counter is for the session that asked, since what was spent may have been forgotten since.
 */
import { randomUUID } from 'node:crypto'
import { parseCounterId } from '../../shared/core/counter-id.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import { holdingOf } from '../../shared/core/enforced.ts'
import type { Limit, StockWindow } from '../../shared/core/policy.ts'
import type { StockAdd } from '../../shared/core/ports.ts'
import {
  EXHAUSTED_RETRY_MS,
  type Given,
  lowMark,
  tokensToAsk,
} from '../../shared/core/stock/asking.ts'
import { instantToOpen } from '../../shared/core/stock/stock-limit.ts'
import {
  STOCK_ASKS_MAX,
  STOCK_WINDOWS_MAX,
  type StockReply,
  type StockRequest,
} from '../../shared/protocol/stock-messages.ts'
import type { Plane } from './plane.ts'

/** Open windows of each limit and usage epoch. */
export type OpenedWindows = ReadonlyMap<string, readonly StockWindow[]>

/** A question to admin, under the session in which it was asked. */
export interface StockQuestion {
  readonly fence: number
  readonly request: Omit<StockRequest, 'v'>
}

/** An answer of admin's to a question of the session `fence`. */
export interface StockAnswer extends StockQuestion {
  readonly reply: StockReply
}

/** Counters of which it is remembered how long their last allotment lasted; others grow from one token again. */
const GIVEN_MAX = 50_000

/** Waits after a question without an answer: short for one that was lost, longer where none come through. */
const RETRY_MS_MIN = 500
const RETRY_MS_MAX = 5_000

/** Counters that may wait for an answer. More are noticed again by their next check. */
const WANTED_MAX = 4_096

export class StockBook {
  #opened: OpenedWindows = new Map()
  readonly #wanted = new Set<CounterId>()
  readonly #given = new Map<CounterId, Given>()
  /** Counters of which nothing was left, until when they are not asked for. */
  readonly #exhausted = new Map<CounterId, number>()
  #limits: ReadonlyMap<number, Limit> = new Map()
  #plane: Plane | null = null
  #fence = 0
  /** A question is out: what it asks for is not asked for twice. */
  #isAsking = false
  /** Name of the question that got no answer yet; null: the next one is new, since of an answer something may be spent. */
  #question: string | null = null
  #retryMs = 0
  #askAtMs = 0

  get opened(): OpenedWindows {
    return this.#opened
  }

  /** Begins a session; what was asked for before it is asked for again. */
  beginSession(fence: number): void {
    this.#fence = fence
    this.#isAsking = false
  }

  /** The last question got no answer. It may have been heard, so it is asked again by its name. */
  askFailed(nowMs: number): void {
    this.#isAsking = false
    this.#retryMs = Math.min(RETRY_MS_MAX, Math.max(RETRY_MS_MIN, 2 * this.#retryMs))
    this.#askAtMs = nowMs + this.#retryMs
  }

  get isWanting(): boolean {
    return this.#wanted.size > 0
  }

  /** Windows that the region's Redis says are open. */
  seed(opened: OpenedWindows): void {
    this.#opened = new Map([...opened, ...this.#opened])
  }

  usePlane(plane: Plane): void {
    if (plane === this.#plane) return
    this.#plane = plane
    const limits = [...plane.policies.values()].flatMap((policy) =>
      policy.limits.filter((limit) => holdingOf(policy, limit) === 'stock'),
    )
    this.#limits = new Map(limits.map((limit) => [limit.id, limit]))
  }

  /** Takes what concerns stock out of `ids`; the rest is the ledger's. */
  notice(ids: readonly CounterId[], nowMs: number): readonly CounterId[] {
    if (this.#limits.size === 0) return ids
    return ids.filter((id) => {
      if (!this.#limits.has(parseCounterId(id)?.limitId ?? -1)) return true
      const isDue = (this.#exhausted.get(id) ?? nowMs) <= nowMs
      if (isDue && this.#wanted.size < WANTED_MAX) this.#wanted.add(id)
      return false
    })
  }

  /** The next question to admin; null while there is none. `storeMs` is the clock that labels windows. */
  ask(storeMs: number, nowMs: number): StockQuestion | null {
    if (this.#isAsking || nowMs < this.#askAtMs) return null
    const windows = this.#windowsToOpen(storeMs)
    const asks = this.#asksFor(storeMs, nowMs)
    if (windows.length + asks.length === 0) return null
    this.#isAsking = true
    this.#question ??= randomUUID()
    return { fence: this.#fence, request: { question: this.#question, windows, asks } }
  }

  #windowsToOpen(storeMs: number): StockRequest['windows'] {
    const windows: StockRequest['windows'] = []
    for (const { id: limitId, usageEpoch } of this.#limits.values()) {
      if (windows.length === STOCK_WINDOWS_MAX) break
      const atMs = instantToOpen(this.#windowsOf(limitId, usageEpoch), storeMs)
      if (atMs !== null) windows.push({ limitId, usageEpoch, atMs: Math.floor(atMs) })
    }
    return windows
  }

  /** A counter whose window is not open yet waits for that. */
  #asksFor(storeMs: number, nowMs: number): StockRequest['asks'] {
    const asks: StockRequest['asks'] = []
    for (const counter of this.#wanted) {
      if (asks.length === STOCK_ASKS_MAX) break
      const { limitId = -1, usageEpoch = -1 } = parseCounterId(counter) ?? {}
      const window = this.#windowsOf(limitId, usageEpoch).find(
        ({ startMs, endMs }) => startMs <= storeMs && storeMs < endMs,
      )
      if (window === undefined) continue
      const want = tokensToAsk(this.#given.get(counter) ?? null, nowMs)
      asks.push({ limitId, usageEpoch, startMs: window.startMs, counter, want })
    }
    return asks
  }

  /** Takes an answer in: what is to be written into Redis, and whether other windows are open now. */
  take(
    { fence, request, reply }: StockAnswer,
    nowMs: number,
  ): { readonly adds: readonly StockAdd[]; readonly isOpened: boolean } {
    for (const { counter } of request.asks) this.#wanted.delete(counter)
    const isOpened = this.#open(reply)
    if (fence !== this.#fence) return { adds: [], isOpened }
    this.#isAsking = false
    this.#question = null
    this.#retryMs = 0
    const adds = reply.allotted.map(({ counter, startMs, from, to }) => {
      this.#remember(counter, to - from, nowMs)
      return { id: counter, startMs, from, to, low: lowMark({ from, to }) }
    })
    return { adds, isOpened }
  }

  /** Forgets windows that are over by `storeMs`. */
  forgetOld(storeMs: number, nowMs: number): void {
    const isOld = [...this.#opened.values()].some((all) => all.some((one) => one.endMs <= storeMs))
    if (isOld) {
      const left = [...this.#opened].map(
        ([key, all]) => [key, all.filter(({ endMs }) => endMs > storeMs)] as const,
      )
      this.#opened = new Map(left.filter(([, windows]) => windows.length > 0))
    }
    for (const [id, untilMs] of this.#exhausted) if (untilMs <= nowMs) this.#exhausted.delete(id)
  }

  #open({ windows }: StockReply): boolean {
    const opened = new Map(this.#opened)
    for (const { limitId, usageEpoch, startMs, endMs, floor } of windows) {
      const key = windowsKey(limitId, usageEpoch)
      const others = (opened.get(key) ?? []).filter((one) => one.startMs !== startMs)
      const all = [...others, { startMs, endMs, floor }]
      opened.set(
        key,
        all.sort((one, other) => one.startMs - other.startMs),
      )
    }
    this.#opened = opened
    return windows.length > 0
  }

  #remember(id: CounterId, tokens: number, nowMs: number): void {
    this.#given.delete(id)
    if (tokens === 0) {
      if (this.#exhausted.size < GIVEN_MAX) this.#exhausted.set(id, nowMs + EXHAUSTED_RETRY_MS)
      return
    }
    this.#given.set(id, { atMs: nowMs, tokens })
    const [oldest] = this.#given.keys()
    if (this.#given.size > GIVEN_MAX && oldest !== undefined) this.#given.delete(oldest)
  }

  #windowsOf(limitId: number, usageEpoch: number): readonly StockWindow[] {
    return this.#opened.get(windowsKey(limitId, usageEpoch)) ?? []
  }
}

export function windowsKey(limitId: number, usageEpoch: number): string {
  return `${limitId}.${usageEpoch}`
}
