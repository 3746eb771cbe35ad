/**
 * When a watcher looks again: with admin's live stream, each time it tells of something that is watched; without it, by
 * the clock. The stream is only a hint, so what is shown comes from the same reading as without --watch.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { StreamEventName } from '../../shared/protocol/stream-events.ts'
import { type AdminClient, AdminRefusal } from './admin-client.ts'
import { ofDomain } from './arguments.ts'

/** Which events say that there is something new. */
export interface Live {
  readonly client: AdminClient
  readonly events: readonly StreamEventName[]
  readonly domain?: string | undefined
}

/** Between two looks without a stream. Admin tells of something new as often. */
const POLL_MS = 1_000

/** Between two looks with one: several events of one second are one look. */
const GAP_MS = 250

/** With a stream it is looked at least this often, should an event be lost or an age grow. */
const QUIET_MS_MAX = 10_000

/** A stream tells of its regions each second; one that is silent for so long is broken, whatever TCP says. */
const SILENT_MS_MAX = 10_000

/** Between two attempts to open the stream, doubled from one to the next. */
const RETRY_MS_MIN = 1_000
const RETRY_MS_MAX = 30_000

/** Refusals that trying again does not change: an older admin, or a token that may not. */
const FINAL_STATUSES = new Set([400, 401, 403, 404])

export class Pulse {
  readonly #live: Live | undefined
  readonly #gapMs: number | undefined
  readonly #signal: AbortSignal
  readonly #stop = new AbortController()
  #isStreaming = false
  #isDue = false
  #lastMs = performance.now()
  #wake: () => void = () => {}

  /** `intervalS`: never look more often than that; undefined: as soon as there is something new. */
  constructor(options: {
    readonly live?: Live | undefined
    readonly intervalS?: number | undefined
    readonly signal: AbortSignal
  }) {
    this.#live = options.live
    this.#gapMs = options.intervalS === undefined ? undefined : options.intervalS * 1_000
    this.#signal = AbortSignal.any([options.signal, this.#stop.signal])
    // A failure to listen is no failure to watch.
    if (this.#live !== undefined) void this.#listen(this.#live).catch(() => {})
  }

  /** True when it is time to look again; false once the process is to stop. */
  async next(): Promise<boolean> {
    await this.#pause(this.#gapMs ?? (this.#isStreaming ? GAP_MS : POLL_MS))
    while (this.#isStreaming && !this.#isDue && !this.#signal.aborted) {
      const leftMs = this.#lastMs + Math.max(QUIET_MS_MAX, this.#gapMs ?? 0) - performance.now()
      if (leftMs <= 0) break
      await this.#rung(leftMs)
    }
    this.#isDue = false
    this.#lastMs = performance.now()
    return !this.#signal.aborted
  }

  close(): void {
    this.#stop.abort()
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#signal }).catch(() => {
      // Told to stop: the answer of `next` says so.
    })
  }

  async #rung(ms: number): Promise<void> {
    const rung = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    const over = new AbortController()
    await Promise.race([rung, this.#pauseUntil(ms, over.signal)])
    over.abort()
  }

  async #pauseUntil(ms: number, signal: AbortSignal): Promise<void> {
    const signals = AbortSignal.any([signal, this.#signal])
    await delay(ms, undefined, { signal: signals }).catch(() => {
      // Rung, or told to stop.
    })
  }

  #ring(): void {
    this.#isDue = true
    this.#wake()
  }

  async #listen(live: Live): Promise<void> {
    let waitMs = RETRY_MS_MIN
    while (!this.#signal.aborted) {
      const wasHeard = await this.#hear(live)
      if (wasHeard === null) return
      waitMs = wasHeard ? RETRY_MS_MIN : Math.min(RETRY_MS_MAX, 2 * waitMs)
      // Many watchers that lose one admin do not come back at one instant.
      await this.#pause(waitMs * (0.5 + Math.random()))
    }
  }

  /** Follows the stream to its end; whether anything came, and null where it is of no use to try again. */
  async #hear({ client, events, domain }: Live): Promise<boolean | null> {
    const broken = new AbortController()
    const watchdog = setTimeout(() => broken.abort(), SILENT_MS_MAX)
    const until = AbortSignal.any([broken.signal, this.#signal])
    const wanted = new Set<string>(['snapshot', ...events].map((name) => `event: ${name}`))
    let wasHeard = false
    try {
      const path = ofDomain('/v1/stream', { domain })
      for await (const line of client.lines(path, { accept: 'text/event-stream' }, until)) {
        watchdog.refresh()
        wasHeard = true
        this.#isStreaming = true
        if (wanted.has(line)) this.#ring()
      }
    } catch (err) {
      if (err instanceof AdminRefusal && FINAL_STATUSES.has(err.status)) return null
    } finally {
      clearTimeout(watchdog)
      this.#isStreaming = false
      // Whoever waits for an event goes by the clock from here on.
      this.#ring()
    }
    return wasHeard
  }
}
