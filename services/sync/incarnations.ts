import type { RegionId } from '../../shared/core/policy.ts'
import { isQuotaError } from '../../shared/errors.ts'
import type { NatsPolicyClient } from '../../shared/nats/policy-client.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

export interface Incarnation {
  readonly incarnation: number
  /** The region never had one before. Only admin can know. */
  readonly isFirst: boolean
}

export interface IncarnationsOptions {
  readonly region: RegionId
  /** Unique to this process. */
  readonly holder: string
  readonly client: Pick<NatsPolicyClient, 'nextIncarnation'>
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Finds the next incarnation of a region that lost its memory.
 *
 * Admin has the numbers in Postgres. Without it the region takes one of its own, from the wall clock and above
 * all it has heard of, and tells admin later, so that admin never again calls this region new.
 */
export class Incarnations {
  readonly #options: IncarnationsOptions
  #asked = 0
  #untold: number | null = null

  constructor(options: IncarnationsOptions) {
    this.#options = options
  }

  /** Asks admin once; null while it does not answer. The same question until `used` ends it. */
  async ask(atLeast: number): Promise<Incarnation | null> {
    const { client, region, holder, log } = this.#options
    try {
      const requestId = `${holder}.${this.#asked}`
      const reply = await client.nextIncarnation({ region, requestId, atLeast })
      return { incarnation: reply.incarnation, isFirst: reply.first }
    } catch (err) {
      if (!isQuotaError(err)) throw err
      log.debug({ err }, 'admin gave no incarnation')
      return null
    }
  }

  /** One of the region's own making, for when admin is away: never the first, so the region recovers. */
  mint(atLeast: number): Incarnation {
    const incarnation = Math.max(atLeast + 1, Math.floor(this.#options.clock.wallMs()))
    this.#untold = incarnation
    return { incarnation, isFirst: false }
  }

  /** Notes that the number last given is in use: the next one must be another. */
  used(): void {
    this.#asked++
  }

  /** Tells admin of a number of the region's own making, if there is one that it has not heard of. */
  async tell(): Promise<void> {
    const untold = this.#untold
    if (untold === null) return
    const { client, region, holder } = this.#options
    await client.nextIncarnation({ region, requestId: `${holder}.told.${untold}`, atLeast: untold })
    if (this.#untold === untold) this.#untold = null
  }
}
