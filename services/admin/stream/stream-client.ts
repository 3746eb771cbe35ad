import type { ServerResponse } from 'node:http'

/**
 * What may wait for a client to take it. A minute of a busy plane; one that is further behind would be shown the past,
 * so it is dropped and may come again for a fresh snapshot.
 */
export const QUEUE_BYTES_MAX = 1024 * 1024

/** A quiet connection is told that it lives, well within the minute after which proxies cut one. */
const HEARTBEAT_AFTER_MS = 10_000

/** A client that does not take even the last event is cut off after this. */
const LAST_WORD_MS = 2_000

/** Why admin ended a stream. */
export type EndReason = 'slow' | 'token' | 'stopping'

const END_DETAILS: Readonly<Record<EndReason, string>> = {
  slow: 'the client takes events more slowly than they come: connect again for a snapshot',
  token: 'the token was revoked or has expired',
  stopping: 'this admin stops: connect to another, or again',
}

export interface StreamFilter {
  readonly domain: string | null
  readonly policy: string | null
  /** Domains that the caller is limited to; null: it may see every one. */
  readonly domains: readonly string[] | null
}

/** One open stream of server-sent events. Never holds more than QUEUE_BYTES_MAX and one event. */
export class StreamClient {
  /** Whose token opened it. */
  readonly actor: string
  readonly filter: StreamFilter
  /** False when the caller may not read any more; rejects when that cannot be known. */
  readonly mayStay: () => Promise<boolean>
  confirmedMs: number
  readonly #response: ServerResponse
  #writtenMs: number
  #isOpen = true

  constructor(options: {
    readonly response: ServerResponse
    readonly actor: string
    readonly filter: StreamFilter
    readonly mayStay: () => Promise<boolean>
    readonly nowMs: number
  }) {
    this.#response = options.response
    this.actor = options.actor
    this.filter = options.filter
    this.mayStay = options.mayStay
    this.confirmedMs = options.nowMs
    this.#writtenMs = options.nowMs
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Sends whole events; false when the client was too slow to be sent any more. */
  send(text: string, nowMs: number): boolean {
    if (!this.#isOpen) return true
    if (this.#response.writableLength > QUEUE_BYTES_MAX) {
      this.end('slow')
      return false
    }
    this.#response.write(text)
    this.#writtenMs = nowMs
    return true
  }

  /** A comment, when nothing else was sent for a while. */
  keepAlive(nowMs: number): void {
    if (nowMs - this.#writtenMs >= HEARTBEAT_AFTER_MS) this.send(': alive\n\n', nowMs)
  }

  /** Says why, as the last event, and closes. */
  end(reason: EndReason): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    const data = JSON.stringify({ reason, detail: END_DETAILS[reason] })
    this.#response.end(`event: end\ndata: ${data}\n\n`)
    const cut = setTimeout(() => this.#response.destroy(), LAST_WORD_MS)
    this.#response.once('close', () => clearTimeout(cut))
  }

  /** The connection is gone. */
  closed(): void {
    this.#isOpen = false
  }
}
