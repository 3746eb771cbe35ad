/**
 * A sample of the newest decisions, for whoever looks for the cause of a denial. In memory, bounded, and off unless
 * somebody has just asked for it.
 */
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Verdict } from './conclude.ts'
import type { Ask } from './parts.ts'

/** Decisions kept: some minutes of a sample that a person can read. */
export const DECISIONS_KEPT_MAX = 500

/** Of one decision: what is longer is cut, so that the log holds a megabyte at most. */
const DESCRIPTORS_MAX = 4
const DESCRIPTOR_LENGTH_MAX = 256
const DECISIONS_MAX = 8

/** A sample that nobody stops ends by itself, so that none is left behind. */
export const SAMPLE_SECONDS_MAX = 3_600

const SECOND_MS = 1_000

export interface LoggedDecision {
  /** Counts up by one with each that is kept. */
  readonly seq: number
  readonly at: string
  readonly domain: string
  /** `key=value` pairs of each descriptor, as they were sent; they may name persons. */
  readonly descriptors: readonly string[]
  readonly cost: number
  readonly requestId?: string
  readonly allowed: boolean
  readonly degraded: boolean
  readonly unmatched: boolean
  readonly decisions: readonly {
    readonly policy: string
    readonly limitName: string
    readonly allowed: boolean
    readonly reason: string | null
    readonly remaining: number | null
  }[]
}

export interface LogReading {
  /** Part of the checks that is kept, 0 to 1, and until when. */
  readonly sample: number
  readonly until: string | null
  /** What to give as `after` to go on from here. */
  readonly next: number
  /** Kept after `after` and overwritten since. */
  readonly missed: number
  readonly decisions: readonly LoggedDecision[]
}

export class DecisionLog {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #kept: LoggedDecision[] = []
  #seq = 0
  #sample = 0
  #untilMs = 0

  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock
    this.#random = random
  }

  /** False while no check is to be kept. */
  get isOn(): boolean {
    return this.#sample > 0
  }

  /** Keeps `sample` of the checks for so many seconds from now; 0 ends it. What was kept before stays readable. */
  keep(sample: number, seconds: number): void {
    this.#sample = sample
    this.#untilMs = this.#clock.wallMs() + seconds * SECOND_MS
  }

  /** Whether this check is one to keep; ends a sample whose time is over. */
  wants(): boolean {
    if (this.#sample === 0 || this.#random() >= this.#sample) return false
    if (this.#clock.wallMs() < this.#untilMs) return true
    this.#sample = 0
    return false
  }

  put(ask: Ask, verdict: Verdict): void {
    const { domain, descriptors, cost, requestId } = ask
    const { allowed, degraded, unmatched, decided } = verdict
    const seq = this.#seq++
    this.#kept[seq % DECISIONS_KEPT_MAX] = {
      seq,
      at: new Date(this.#clock.wallMs()).toISOString(),
      domain,
      descriptors: descriptors.slice(0, DESCRIPTORS_MAX).map(({ entries }) =>
        entries
          .map(({ key, value }) => `${key}=${value}`)
          .join(' ')
          .slice(0, DESCRIPTOR_LENGTH_MAX),
      ),
      cost,
      ...(requestId !== undefined && { requestId }),
      allowed,
      degraded,
      unmatched,
      decisions: decided.slice(0, DECISIONS_MAX).map(({ limit, decision }) => ({
        policy: `${domain}/${limit.words.policy}`,
        limitName: limit.limit.name,
        allowed: decision.allowed,
        reason: decision.reason,
        remaining: decision.remaining,
      })),
    }
  }

  /** What was kept from number `after` on, the oldest first. */
  read(after: number): LogReading {
    const oldest = Math.max(0, this.#seq - DECISIONS_KEPT_MAX)
    const from = Math.min(Math.max(after, oldest), this.#seq)
    const isOn = this.#sample > 0 && this.#clock.wallMs() < this.#untilMs
    const decisions: LoggedDecision[] = []
    for (let seq = from; seq < this.#seq; seq++) {
      const one = this.#kept[seq % DECISIONS_KEPT_MAX]
      if (one !== undefined) decisions.push(one)
    }
    return {
      sample: isOn ? this.#sample : 0,
      until: isOn ? new Date(this.#untilMs).toISOString() : null,
      next: this.#seq,
      missed: Math.max(0, from - after),
      decisions,
    }
  }
}
