/**
 * Keeps the live state up to date for as long as the page is shown: by the stream of admin; by asking once a second
 * while there is no stream, which is tried again all the while. What was known stays, with its age.
 */
import type { SharesReply, UsageReply } from '../../../../shared/protocol/admin-replies.ts'
import type { LagsReply } from '../../../../shared/protocol/reading-replies.ts'
import type { RolloutReply } from '../../../../shared/protocol/rollout-reply.ts'
import type { Api } from './admin-calls.ts'
import { ApiError } from './api.ts'
import { EventReader } from './event-reader.ts'
import { type LiveState, NOTHING_LIVE, withEvent } from './live-state.ts'
import { pause, whenShown } from './pause.ts'
import { ratesByRegion } from './sums.ts'

/** Regions are told each second: a stream that is silent for this long is broken, whatever its connection says. */
const SILENT_AFTER_MS = 4_000

/** Between two questions while there is no stream. */
const ASK_EVERY_MS = 1_000

/** Times to ask before the stream is tried again, doubled up to the second number. */
const ASKS = [1, 16] as const

type Listener = (state: LiveState) => void

export class LiveFeed {
  readonly #api: Api
  readonly #tell: Listener
  #state = NOTHING_LIVE
  #lastId: string | null = null

  constructor(api: Api, tell: Listener) {
    this.#api = api
    this.#tell = tell
  }

  /** Ends with `signal`. */
  async run(signal: AbortSignal): Promise<void> {
    let asks: number = ASKS[0]
    while (!signal.aborted) {
      await whenShown(signal)
      const began = this.#state.atMs
      await this.#listen(signal).catch((err: unknown) => this.#fail(err, signal))
      if (signal.aborted) return
      asks =
        this.#state.by === 'stream' && this.#state.atMs !== began
          ? ASKS[0]
          : Math.min(2 * asks, ASKS[1])
      for (let i = 0; i < asks && !signal.aborted; i++) {
        await this.#ask(signal).catch((err: unknown) => this.#fail(err, signal))
        await pause(ASK_EVERY_MS, signal)
      }
    }
  }

  /** Takes the stream until it ends, breaks or falls silent. */
  async #listen(outer: AbortSignal): Promise<void> {
    const stop = new AbortController()
    const signal = AbortSignal.any([outer, stop.signal])
    const headers = this.#lastId === null ? {} : { 'last-event-id': this.#lastId }
    let silence = setTimeout(() => stop.abort(), SILENT_AFTER_MS)
    try {
      const body = await this.#api.stream('/v1/stream', headers, signal)
      const events = new EventReader()
      const text = new TextDecoder()
      const reader = body.getReader()
      while (true) {
        const { done, value } = await reader.read()
        if (done) throw new Error('the stream ended')
        clearTimeout(silence)
        silence = setTimeout(() => stop.abort(), SILENT_AFTER_MS)
        this.#take(events, text.decode(value, { stream: true }))
      }
    } finally {
      clearTimeout(silence)
      stop.abort()
    }
  }

  /** Tells once for all events that came together. */
  #take(events: EventReader, text: string): void {
    let state = this.#state
    for (const { name, data, id } of events.take(text)) {
      const parsed = JSON.parse(data) as unknown
      if (name === 'end') throw new Error((parsed as { detail: string }).detail)
      state = withEvent(state, name, parsed, performance.now())
      this.#lastId = id ?? this.#lastId
    }
    this.#set(state)
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const [regions, rollout, shares, usage] = await Promise.all([
      this.#api.get<LagsReply>('/v1/lags', signal),
      this.#api.get<RolloutReply>('/v1/rollouts/latest', signal),
      this.#api.get<SharesReply>('/v1/shares?limit=100', signal),
      this.#api.get<UsageReply>('/v1/usage?limit=100', signal),
    ])
    // What the stream missed to tell continues its own words, not these, which hold other limits.
    this.#lastId = null
    const hot = shares.limits.filter(({ keys }) => keys.length > 0)
    const nowMs = performance.now()
    this.#set({
      ...this.#state,
      regions,
      shares: new Map(hot.map((limit) => [limit.limitId, limit])),
      rates: ratesByRegion(usage),
      ratesAtMs: nowMs,
      revision: rollout.revision,
      rollout,
      atMs: nowMs,
      problem: null,
      by: 'asking',
    })
  }

  #fail(err: unknown, signal: AbortSignal): void {
    if (signal.aborted) return
    const problem = err instanceof ApiError ? err.message : 'admin cannot be reached'
    this.#set({ ...this.#state, problem })
  }

  #set(state: LiveState): void {
    if (state === this.#state) return
    this.#state = state
    this.#tell(state)
  }
}
