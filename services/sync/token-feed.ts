import type { NatsPolicyClient } from '../../shared/nats/policy-client.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { HeardTokens } from './inbox.ts'

export interface TokenFeedOptions {
  readonly client: Pick<NatsPolicyClient, 'checkTokens' | 'onTokensMark'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly onTokens: (tokens: HeardTokens) => void
  /** Called when a pull is wanted now rather than with the next beat. */
  readonly onWanted: () => void
}

/**
 * Follows the tokens for checks by the mark that admin gives them.
 *
 * A mark has no order: one that is not the known one only asks for a pull, and what is pulled is read from Postgres
 * after it was asked for. So a late hint costs a question and changes nothing, and a Postgres that was restored is
 * followed like any other. While admin is away the tokens stay as they were.
 */
export class TokenFeed {
  readonly #options: TokenFeedOptions
  #heard: string | null = null
  #mark: string | null = null

  constructor(options: TokenFeedOptions) {
    this.#options = options
    options.client.onTokensMark((mark) => {
      this.#heard = mark
      if (this.isBehind) options.onWanted()
    })
  }

  get isBehind(): boolean {
    return this.#heard !== this.#mark
  }

  /** Asks admin when there is a reason to; rejects when it does not answer, and is then still behind. */
  async pullOnce(): Promise<void> {
    if (!this.isBehind) return
    const { client, clock, onTokens } = this.#options
    const askedAtMs = clock.monotonicMs()
    const { mark, ...tokens } = await client.checkTokens()
    this.#mark = mark
    // A hint of before the reading is answered by it; one that is newer comes again within a second.
    this.#heard = mark
    onTokens({ tokens, askedAtMs })
  }
}
