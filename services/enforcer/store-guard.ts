/**
 * Keeps an outage of the store from making each check wait for the deadline.
 *
 * Closed: every check asks the store. After FAILURES_TO_OPEN failures in a row it opens: checks are answered
 * without the store, and each PAUSE_MS one check is let through to try it; its success closes the guard.
 *
 * Each check carries the number of the round it began in, and only outcomes of the present round count. So a
 * batch of checks that fail together is one failure, and an answer that comes late flips nothing.
 */
import type { Clock } from '../../shared/runtime/clock.ts'

/** One stall (a pause of either process) is not an outage; three in a row, each a full deadline long, are. */
const FAILURES_TO_OPEN = 3

/** How long an outage outlasts its end at most, and how often it costs one check the deadline. */
const PAUSE_MS = 250

export class StoreGuard {
  readonly #clock: Clock
  readonly #onFlip: (isOpen: boolean) => void
  #round = 0
  #failures = 0
  /** While open: when the next check may try the store; infinite while one does. */
  #retryAtMs: number | null = null

  constructor(options: { readonly clock: Clock; readonly onFlip: (isOpen: boolean) => void }) {
    this.#clock = options.clock
    this.#onFlip = options.onFlip
  }

  get isOpen(): boolean {
    return this.#retryAtMs !== null
  }

  /** The round to report the outcome with; null when the store is not to be asked. */
  enter(): number | null {
    if (this.#retryAtMs === null) return this.#round
    if (this.#clock.monotonicMs() < this.#retryAtMs) return null
    this.#retryAtMs = Number.POSITIVE_INFINITY
    return this.#round
  }

  succeeded(round: number): void {
    if (round !== this.#round) return
    this.#failures = 0
    if (this.#retryAtMs === null) return
    this.#retryAtMs = null
    this.#round++
    this.#onFlip(false)
  }

  failed(round: number): void {
    if (round !== this.#round) return
    this.#round++
    this.#failures++
    if (this.#failures < FAILURES_TO_OPEN) return
    const wasOpen = this.isOpen
    this.#retryAtMs = this.#clock.monotonicMs() + PAUSE_MS
    if (!wasOpen) this.#onFlip(true)
  }
}
