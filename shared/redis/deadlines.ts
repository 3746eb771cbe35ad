/**
 * Ends what Redis leaves without an answer for a fixed time; one timer for all, because a timer per call costs more
 * than the call.
 *
 * What is measured is the silence of Redis and not the work of others:
 * - An answer to any call starts the time of all calls anew, for a server that answers is busy and not gone. A call
 *   waits STRETCH_MAX times as long at most.
 * - A stall of this process (its timer came late) starts it anew once: nobody read what Redis may have said.
 * - What is overdue gets one more turn of the event loop, in which a reply that waits in the socket is read.
 */
export interface DeadlineOptions<Item> {
  readonly afterMs: number
  readonly expire: (item: Item) => void
  /** Told how late the timer was, ms, when that is more than a stall of the event loop. */
  readonly onStall?: (lateMs: number) => void
}

/** A batch waits for the batches of other slot groups before it; more than this is a server that does not keep up. */
export const STRETCH_MAX = 4

/** Timers are late by a millisecond at any time; by more than this something kept the process from its loop. */
const STALL_MS = 2

interface Started<Item> {
  readonly item: Item
  atMs: number
  isStretched: boolean
}

export class Deadlines<Item> {
  readonly #options: DeadlineOptions<Item>
  /**
   * In the order of their start, which is nearly that of their end. A map grows into one table after another, and each
   * keeps what was in it and leads to the next: once a first one has been moved to the old generation, nothing that is
   * ever put in is collected with the young.
   */
  readonly #started: Started<Item>[] = []
  #heardMs = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | null = null
  #timerMs = 0

  constructor(options: DeadlineOptions<Item>) {
    this.#options = options
  }

  start(item: Item): void {
    this.#started.push({ item, atMs: performance.now(), isStretched: false })
    if (this.#timer === null) this.#setTimer(this.#options.afterMs)
  }

  /** Redis has answered something. */
  heard(): void {
    this.#heardMs = performance.now()
  }

  /** True when the item was still in time. */
  end(item: Item): boolean {
    const index = this.#started.findIndex((started) => started.item === item)
    if (index < 0) return false
    this.#started.splice(index, 1)
    return true
  }

  #look(): void {
    this.#timer = null
    const nowMs = performance.now()
    const lateMs = nowMs - this.#timerMs
    if (lateMs > STALL_MS && this.#started.length > 0) this.#stretch(nowMs, lateMs)
    const overdue: Item[] = []
    let nextMs = Number.POSITIVE_INFINITY
    for (const started of this.#started) {
      const leftMs = this.#dueMs(started) - nowMs
      if (leftMs > 0) nextMs = Math.min(nextMs, leftMs)
      else overdue.push(started.item)
    }
    // An overdue item is looked at again only by its own turn, so the timer does not wait for it.
    if (overdue.length > 0) setImmediate(() => this.#end(overdue))
    if (nextMs !== Number.POSITIVE_INFINITY) this.#setTimer(Math.ceil(nextMs))
  }

  #stretch(nowMs: number, lateMs: number): void {
    this.#options.onStall?.(lateMs)
    for (const started of this.#started) {
      if (started.isStretched) continue
      started.atMs = nowMs
      started.isStretched = true
    }
  }

  #dueMs({ atMs }: Started<Item>): number {
    const { afterMs } = this.#options
    return Math.min(Math.max(atMs, this.#heardMs) + afterMs, atMs + STRETCH_MAX * afterMs)
  }

  #end(overdue: readonly Item[]): void {
    for (const item of overdue) {
      if (this.end(item)) this.#options.expire(item)
    }
  }

  #setTimer(ms: number): void {
    this.#timerMs = performance.now() + ms
    this.#timer = setTimeout(() => this.#look(), ms)
  }
}
