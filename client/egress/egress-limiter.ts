/**
 * Calls someone else's API no faster than it allows.
 *
 * Three things hold a call back, in this order: the local gate (rate, concurrency, a pause that the provider asked
 * for), then the plane's global quota where one is given. An answer that says "too many" pauses every caller, not only
 * the one that got it, and is tried again after the wait that the provider named or a jittered exponential one.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { QuotaClient } from '../quota-client.ts'
import type { Descriptor } from '../requests.ts'
import { type BackoffOptions, backoffMs } from './backoff.ts'
import { EgressError } from './egress-error.ts'
import { Gate, type GateOptions } from './gate.ts'
import { answeredAtMs, providerWaitMs } from './provider-wait.ts'

/** A global quota that the call must pass too, shared by all regions through the plane. */
export interface EgressQuota {
  readonly client: Pick<QuotaClient, 'check'>
  readonly domain: string
  readonly descriptor: Descriptor
}

export interface EgressOptions {
  /** Calls a second that the provider allows. */
  readonly perSecond: number
  /** Calls that may go at once after a pause; by default one second's worth, at least 1. */
  readonly burst?: number
  /** Calls in flight at once; 16 unless told. */
  readonly concurrency?: number
  /** Callers that may wait; 1,000 unless told. One more is refused at once. */
  readonly queueMax?: number
  /** Sends of one call, the first included; 5 unless told. */
  readonly attemptsMax?: number
  /** Longest that one call may take, all waits included, ms; a minute unless told. */
  readonly deadlineMs?: number
  readonly backoff?: BackoffOptions
  readonly quota?: EgressQuota
  /** In [0, 1); for tests. */
  readonly random?: () => number
}

export interface CallOptions {
  /** Tokens of the local rate and of the global quota; 1 unless told. */
  readonly cost?: number
  readonly signal?: AbortSignal
}

export interface FetchOptions extends RequestInit {
  readonly cost?: number
  /** Try again after a failure even though the method is not idempotent (POST, PATCH). */
  readonly retryUnsafe?: boolean
}

const BACKOFF: BackoffOptions = { baseMs: 200, maxMs: 30_000 }

/** Methods that may be repeated although it is not known whether they were carried out (RFC 9110, 9.2.2). */
const IDEMPOTENT = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE'])

/** A server that was down or busy; 429 is apart, since it says that nothing was done. */
const TRANSIENT = new Set([502, 503, 504])

export class EgressLimiter {
  readonly #gate: Gate
  readonly #attemptsMax: number
  readonly #deadlineMs: number
  readonly #backoff: BackoffOptions
  readonly #quota: EgressQuota | null
  readonly #random: () => number

  constructor(options: EgressOptions) {
    this.#gate = new Gate(gateOptions(options))
    this.#attemptsMax = positive('attemptsMax', options.attemptsMax ?? 5)
    this.#deadlineMs = positive('deadlineMs', options.deadlineMs ?? 60_000)
    this.#backoff = options.backoff ?? BACKOFF
    this.#quota = options.quota ?? null
    this.#random = options.random ?? Math.random
  }

  /** Calls in flight, callers that wait, and for how much longer the provider asked for a pause, ms. */
  get state(): { readonly inFlight: number; readonly waiting: number; readonly pausedMs: number } {
    const pausedMs = Math.max(0, this.#gate.pausedUntilMs - performance.now())
    return { inFlight: this.#gate.inFlight, waiting: this.#gate.waiting, pausedMs }
  }

  /**
   * `fetch` under the limiter. Resolves with the last answer, also when that is still a 429 after all attempts.
   *
   * A 429 is tried again; a 502, 503, 504 or a failed connection only where the method is idempotent or `retryUnsafe`
   * is set. A body that can be read only once (a stream) is never sent twice. Rejects with EgressError when the call
   * was not sent, and as `fetch` does otherwise.
   */
  async fetch(url: string | URL, options: FetchOptions = {}): Promise<Response> {
    const { cost, retryUnsafe = false, ...init } = options
    const isReplayable = !(init.body instanceof ReadableStream)
    const isIdempotent = IDEMPOTENT.has((init.method ?? 'GET').toUpperCase())
    const mayRepeat = isReplayable && (isIdempotent || retryUnsafe)
    const call = { signal: init.signal ?? undefined, cost }
    return await this.#attempt(call, {
      send: (signal) => fetch(url, { ...init, signal }),
      judge: (response) => {
        const waitMs = providerWaitMs(
          response.status,
          response.headers,
          answeredAtMs(response.headers),
        )
        const again =
          response.status === 429 ? isReplayable : TRANSIENT.has(response.status) && mayRepeat
        return { again, waitMs }
      },
      repeatsFailures: mayRepeat,
      discard: async (response) => await response.body?.cancel(),
    })
  }

  /** Runs `work` once under the local rate, the concurrency cap and the global quota. */
  async run<T>(work: (signal: AbortSignal) => Promise<T>, options: CallOptions = {}): Promise<T> {
    return await this.#attempt(options, {
      send: work,
      judge: () => ({ again: false, waitMs: null }),
      repeatsFailures: false,
      discard: () => Promise.resolve(),
    })
  }

  /** Holds every caller back for `ms`: for answers whose wait only the caller can read. */
  pause(ms: number): void {
    this.#gate.pause(ms)
  }

  async #attempt<T>(
    options: { readonly cost?: number | undefined; readonly signal?: AbortSignal | undefined },
    call: Call<T>,
  ): Promise<T> {
    const untilMs = performance.now() + this.#deadlineMs
    const deadline = AbortSignal.timeout(this.#deadlineMs)
    const signal =
      options.signal === undefined ? deadline : AbortSignal.any([deadline, options.signal])
    const until = { signal, untilMs }
    for (let attempt = 1; ; attempt++) {
      const outcome = await this.#sendOnce(call, options.cost ?? 1, until)
      const waitMs = this.#waitAfter(outcome, attempt)
      const isLast = attempt >= this.#attemptsMax || performance.now() + waitMs >= untilMs
      if (!outcome.again || isLast) return resultOf(outcome)
      if (outcome.kind === 'answered') await call.discard(outcome.value)
      await waitFor(waitMs, signal)
    }
  }

  /** The wait that the provider named, and then everybody's; otherwise a jittered one of this call alone. */
  #waitAfter({ waitMs }: Judgement, attempt: number): number {
    if (waitMs !== null && waitMs > 0) this.#gate.pause(waitMs)
    return Math.max(waitMs ?? 0, backoffMs(attempt, this.#backoff, this.#random()))
  }

  async #sendOnce<T>(call: Call<T>, cost: number, until: Until): Promise<Outcome<T>> {
    await this.#enter(cost, until)
    try {
      const value = await call.send(until.signal)
      return { kind: 'answered', value, ...call.judge(value) }
    } catch (error) {
      const again = call.repeatsFailures && !until.signal.aborted
      return { kind: 'failed', error, again, waitMs: null }
    } finally {
      this.#gate.leave()
    }
  }

  /** Waits for the gate, and for the global quota outside the gate, so that nobody waits behind a denied caller. */
  async #enter(cost: number, { signal, untilMs }: Until): Promise<void> {
    for (;;) {
      await this.#gate.enter(cost, signal)
      const deniedMs = await this.#denial(cost, signal).catch((err: unknown) => {
        this.#gate.leave()
        throw err
      })
      if (deniedMs === null) return
      this.#gate.leave()
      if (performance.now() + deniedMs >= untilMs) {
        throw new EgressError('EGRESS_QUOTA', `the global quota is used up for ${deniedMs} ms`)
      }
      await waitFor(deniedMs, signal)
    }
  }

  /** How long the global quota denies this call, ms; null when it passes. */
  async #denial(cost: number, signal: AbortSignal): Promise<number | null> {
    if (this.#quota === null) return null
    const { client, domain, descriptor } = this.#quota
    const answer = await client.check({ domain, descriptors: [descriptor], cost, signal })
    if (answer.allowed) return null
    const never = answer.decisions.find(({ allowed, reason }) => !allowed && isForGood(reason))
    if (never !== undefined) {
      const message = `the global quota ${never.policy} never admits this call (${never.reason})`
      throw new EgressError('EGRESS_QUOTA', message)
    }
    const waits = answer.decisions.map(({ allowed, retryAfterMs }) => (allowed ? 0 : retryAfterMs))
    if (waits.includes(null)) return UNKNOWN_DENIAL_MS
    return Math.max(1, ...waits.map(Number))
  }
}

/** Whether waiting never helps: the cost is more than the limit admits at once, or it denies everybody. */
function isForGood(reason: string | undefined): boolean {
  return reason === 'cost_exceeds_capacity' || reason === 'deny_all'
}

/** Rejects with the signal's reason when it is aborted first. */
async function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal })
  } catch (err) {
    throw signal.aborted ? signal.reason : err
  }
}

/** A denial whose end is not known: the region's daemon is about to borrow, or the enforcer is away. */
const UNKNOWN_DENIAL_MS = 1_000

interface Until {
  readonly signal: AbortSignal
  readonly untilMs: number
}

interface Call<T> {
  readonly send: (signal: AbortSignal) => Promise<T>
  readonly judge: (value: T) => Judgement
  readonly repeatsFailures: boolean
  readonly discard: (value: T) => Promise<void>
}

interface Judgement {
  readonly again: boolean
  readonly waitMs: number | null
}

type Outcome<T> = Judgement &
  (
    | { readonly kind: 'answered'; readonly value: T }
    | { readonly kind: 'failed'; readonly error: unknown }
  )

function resultOf<T>(outcome: Outcome<T>): T {
  if (outcome.kind === 'failed') throw outcome.error
  return outcome.value
}

function gateOptions(options: EgressOptions): GateOptions {
  const perSecond = positive('perSecond', options.perSecond)
  return {
    perSecond,
    burst: positive('burst', options.burst ?? Math.max(1, perSecond)),
    concurrency: positive('concurrency', options.concurrency ?? 16),
    queueMax: positive('queueMax', options.queueMax ?? 1_000),
  }
}

function positive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value
  throw new RangeError(`${name} must be a number above 0, not ${value}`)
}
