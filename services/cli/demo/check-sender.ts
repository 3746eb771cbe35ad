import { Pool } from 'undici'
import { z } from 'zod'
import type { DescriptorBody } from '../plane/enforced.ts'
import type { CheckRecord } from './check-record.ts'

/** Kept-alive connections to each enforcer; a check takes about a millisecond, so a few carry thousands a second. */
const CONNECTIONS = 16

/** An answer that is later than this is worthless to a caller; the check counts as failed. */
const ANSWER_TIMEOUT_MS = 2_000

const answerSchema = z.object({
  allowed: z.boolean(),
  degraded: z.boolean(),
  decisions: z.array(z.unknown()),
})

export interface CheckOrder {
  readonly region: number
  readonly client: string
  readonly descriptors: readonly DescriptorBody[]
}

/** Sends real checks to the enforcers, and tells of each when it left, when it was answered, and what was said. */
export class CheckSender {
  readonly #domain: string
  readonly #cost: number
  readonly #pools: readonly Pool[]
  readonly #originMs: number
  readonly #onRecord: (record: CheckRecord) => void
  readonly #underWay = new Set<Promise<void>>()
  readonly #inFlight: number[]

  /** `urls`: an enforcer per region. Times are counted from `originMs` of `performance.now()`. */
  constructor(options: {
    readonly domain: string
    readonly urls: readonly string[]
    /** Tokens that each check takes; 0 only reads. */
    readonly cost: number
    readonly originMs: number
    readonly onRecord: (record: CheckRecord) => void
  }) {
    this.#domain = options.domain
    this.#cost = options.cost
    this.#originMs = options.originMs
    this.#onRecord = options.onRecord
    this.#inFlight = options.urls.map(() => 0)
    this.#pools = options.urls.map(
      (url) =>
        new Pool(url, {
          connections: CONNECTIONS,
          headersTimeout: ANSWER_TIMEOUT_MS,
          bodyTimeout: ANSWER_TIMEOUT_MS,
        }),
    )
  }

  /** Checks sent to a region and not yet answered. */
  inFlight(region: number): number {
    return this.#inFlight[region] ?? 0
  }

  /** Sends one check now and does not wait for its answer. */
  send(order: CheckOrder): void {
    const sending = this.#send(order).finally(() => this.#underWay.delete(sending))
    this.#underWay.add(sending)
  }

  /** Waits for what is under way and closes the connections. */
  async close(): Promise<void> {
    await Promise.all(this.#underWay)
    await Promise.all(this.#pools.map((pool) => pool.close()))
  }

  async #send({ region, client, descriptors }: CheckOrder): Promise<void> {
    this.#inFlight[region] = this.inFlight(region) + 1
    const sentMs = performance.now() - this.#originMs
    const outcome = await this.#ask(region, descriptors)
    const receivedMs = performance.now() - this.#originMs
    this.#inFlight[region] = this.inFlight(region) - 1
    this.#onRecord({ region, client, sentMs, receivedMs, outcome })
  }

  async #ask(
    region: number,
    descriptors: readonly DescriptorBody[],
  ): Promise<CheckRecord['outcome']> {
    try {
      const response = await this.#pools[region]?.request({
        method: 'POST',
        path: '/v1/check',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ domain: this.#domain, descriptors, cost: this.#cost }),
      })
      const answer = answerSchema.parse(await response?.body.json())
      // A decision made without the store, or by no policy, says nothing about the limit.
      if (answer.degraded || answer.decisions.length === 0) return 'failed'
      return answer.allowed ? 'admitted' : 'denied'
    } catch {
      return 'failed' // Counted and shown in the summary; a demo goes on through a broken plane.
    }
  }
}
