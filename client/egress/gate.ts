import { EgressError } from './egress-error.ts'
import { SendRate } from './send-rate.ts'

export interface GateOptions {
  /** Sends a second, on average. */
  readonly perSecond: number
  /** Sends at once after a pause. */
  readonly burst: number
  /** Sends in flight at once. */
  readonly concurrency: number
  /** Callers that may wait; one more is refused at once. */
  readonly queueMax: number
}

/** Longest timer of Node.js; a longer one fires at once. */
const TIMER_MS_MAX = 2_147_483_647

interface Waiter {
  readonly cost: number
  readonly enter: () => void
}

/**
 * Lets callers through in the order in which they came: no faster than the rate, no more at once than the cap, and
 * none while the provider has asked for a pause.
 *
 * First come, first served also for different costs, so that a dear call is not starved by cheap ones.
 */
export class Gate {
  readonly #options: GateOptions
  readonly #rate: SendRate
  readonly #waiting = new Set<Waiter>()
  #inFlight = 0
  #pausedUntilMs = 0
  #timer: NodeJS.Timeout | null = null

  constructor(options: GateOptions) {
    this.#options = options
    this.#rate = new SendRate(options.perSecond, options.burst, performance.now())
  }

  get waiting(): number {
    return this.#waiting.size
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** Until when the provider asked for a pause, on the clock of `performance.now()`; in the past when it did not. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs
  }

  /**
   * Resolves when the caller may send; every entry is followed by one `leave`.
   *
   * Rejects with EGRESS_QUEUE_FULL, with EGRESS_COST when the cost is more than a burst holds, and with the
   * signal's reason when it is aborted first; then there is nothing to leave.
   */
  enter(cost: number, signal?: AbortSignal): Promise<void> {
    if (!(cost > 0 && cost <= this.#options.burst)) {
      const message = `cost must be above 0 and at most the burst of ${this.#options.burst}, not ${cost}`
      return Promise.reject(new EgressError('EGRESS_COST', message))
    }
    if (signal?.aborted === true) return Promise.reject(signal.reason)
    if (this.#waiting.size >= this.#options.queueMax) {
      const message = `${this.#waiting.size} calls are waiting already`
      return Promise.reject(new EgressError('EGRESS_QUEUE_FULL', message))
    }
    return new Promise<void>((resolve, reject) => {
      const abort = (): void => {
        this.#waiting.delete(waiter)
        reject(signal?.reason)
        // The one behind may be cheaper, and may go at once.
        this.#advance()
      }
      const waiter: Waiter = {
        cost,
        enter: () => {
          signal?.removeEventListener('abort', abort)
          resolve()
        },
      }
      signal?.addEventListener('abort', abort, { once: true })
      this.#waiting.add(waiter)
      this.#advance()
    })
  }

  leave(): void {
    this.#inFlight -= 1
    this.#advance()
  }

  /** Lets nobody through for `ms`, or longer where a longer pause was asked for already. */
  pause(ms: number): void {
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, performance.now() + ms)
  }

  #advance(): void {
    for (const waiter of this.#waiting) {
      if (this.#inFlight >= this.#options.concurrency) return
      const nowMs = performance.now()
      const waitMs = Math.max(this.#pausedUntilMs - nowMs, this.#rate.waitMs(waiter.cost, nowMs))
      if (waitMs > 0) {
        this.#advanceIn(waitMs)
        return
      }
      this.#rate.take(waiter.cost, nowMs)
      this.#inFlight += 1
      this.#waiting.delete(waiter)
      waiter.enter()
    }
    // Nobody waits, so nothing may keep the process alive for them.
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #advanceIn(waitMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = setTimeout(
      () => {
        this.#timer = null
        this.#advance()
      },
      Math.min(Math.ceil(waitMs), TIMER_MS_MAX),
    )
  }
}
