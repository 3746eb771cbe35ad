/**
 * Keeps an outage of the store from making each check wait for the deadline.
 *
 * Closed: every check asks the store. After FAILURES_TO_OPEN failures in a row it opens: checks are answered
 * without the store. After a pause one check is let through to try it, and no second while that one waits; its success
 * closes the guard, its failure makes the next pause twice as long, up to PAUSE_MS_MAX.
 *
 * Each check carries the number of the round it began in, and only outcomes of the present round count. So a
 * batch of checks that fail together is one failure, and an answer that comes late flips nothing.
 */
import type { Clock } from '../../shared/runtime/clock.ts'

/** One stall (a pause of either process) is not an outage; three in a row are. */
const FAILURES_TO_OPEN = 3

/** Checks that follow a time-out fail at once until Redis answers: within this they belong to the failure before. */
const FAILURES_APART_MS = 2

/** A pause of Redis for a fork or a large deletion is over soon; the first try costs one check one deadline. */
const PAUSE_MS_FIRST = 25

/** How long an outage outlasts its end at most, and how often a long one costs one check the deadline. */
const PAUSE_MS_MAX = 250

/** An outage that lasts longer than this wants a human. */
const LASTING_MS = 1_000

export type GuardChange = 'opened' | 'lasting' | 'closed'

export interface StoreGuardOptions {
  readonly clock: Clock
  /** `lasting` once for each outage that is longer than a moment. */
  readonly onChange: (change: GuardChange) => void
}

export class StoreGuard {
  readonly #clock: Clock
  readonly #onChange: StoreGuardOptions['onChange']
  #round = 0
  #failures = 0
  #failedMs = Number.NEGATIVE_INFINITY
  #openedMs: number | null = null
  #isLasting = false
  #pauseMs = PAUSE_MS_FIRST
  /** While open: when the next check may try the store; infinite while one does. */
  #retryAtMs = 0

  constructor({ clock, onChange }: StoreGuardOptions) {
    this.#clock = clock
    this.#onChange = onChange
  }

  get isOpen(): boolean {
    return this.#openedMs !== null
  }

  /** How long the store has not decided; null while it does. */
  get openMs(): number | null {
    return this.#openedMs === null ? null : this.#clock.monotonicMs() - this.#openedMs
  }

  /** The round to report the outcome with; null when the store is not to be asked. */
  enter(): number | null {
    if (this.#openedMs === null) return this.#round
    if (this.#clock.monotonicMs() < this.#retryAtMs) return null
    this.#retryAtMs = Number.POSITIVE_INFINITY
    return this.#round
  }

  succeeded(round: number): void {
    if (round !== this.#round) return
    this.#failures = 0
    if (this.#openedMs === null) return
    this.#openedMs = null
    this.#isLasting = false
    this.#pauseMs = PAUSE_MS_FIRST
    this.#round++
    this.#onChange('closed')
  }

  failed(round: number): void {
    if (round !== this.#round) return
    const nowMs = this.#clock.monotonicMs()
    if (this.#openedMs !== null) this.#keepOpen(this.#openedMs, nowMs)
    else if (nowMs - this.#failedMs >= FAILURES_APART_MS) this.#count(nowMs)
  }

  #count(nowMs: number): void {
    this.#round++
    this.#failedMs = nowMs
    this.#failures++
    if (this.#failures < FAILURES_TO_OPEN) return
    this.#openedMs = nowMs
    this.#retryAtMs = nowMs + this.#pauseMs
    this.#onChange('opened')
  }

  #keepOpen(openedMs: number, nowMs: number): void {
    this.#round++
    this.#pauseMs = Math.min(2 * this.#pauseMs, PAUSE_MS_MAX)
    this.#retryAtMs = nowMs + this.#pauseMs
    if (this.#isLasting || nowMs - openedMs < LASTING_MS) return
    this.#isLasting = true
    this.#onChange('lasting')
  }
}
