import { timingSafeEqual } from 'node:crypto'
import type { CheckToken, CheckTokens } from '../../shared/core/check-tokens.ts'
import type { CheckTokenReader } from '../../shared/core/ports.ts'
import { QuotaError } from '../../shared/errors.ts'
import { parseToken } from '../../shared/protocol/token-format.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'

/** What a token of a caller must have. */
export const CALLER_SCOPE = 'quota:check'

/** Header values that were found right, as many as tokens of a plane; wrong ones are not kept, so none can fill it. */
const VERIFIED_MAX = 1_000

const BEARER = /^Bearer +(\S+) *$/i

/** A token as it is looked up. */
interface Known {
  readonly digest: Buffer
  readonly domains: ReadonlySet<string> | null
  readonly expiresAtMs: number
}

/**
 * Says who may ask for checks, out of the tokens that the region's Redis had last: nothing is asked for a request.
 *
 * A failure to read changes nothing, so a region that is cut off goes on with the tokens that it has. Nobody is let in
 * before any were read.
 */
export class CallerBook {
  readonly #reader: CheckTokenReader
  readonly #clock: Pick<Clock, 'wallMs'>
  readonly #log: Logger
  #asOfMs: number | null = null
  #tokens: ReadonlyMap<string, Known> | null = null
  #verified = new Map<string, Known>()

  constructor(options: {
    readonly reader: CheckTokenReader
    readonly clock: Pick<Clock, 'wallMs'>
    readonly log: Logger
  }) {
    this.#reader = options.reader
    this.#clock = options.clock
    this.#log = options.log
  }

  /** False until the region's daemon has written tokens, or that there are none, and they were read once. */
  get isKnown(): boolean {
    return this.#tokens !== null
  }

  /** Reads the tokens if Redis has others. */
  async pollOnce(): Promise<void> {
    const read = await this.#reader.readOther(this.#asOfMs)
    if (read === null) return
    this.#adopt(read)
    this.#log.info({ asOfMs: read.asOfMs, tokens: read.tokens.length }, 'tokens for checks read')
  }

  /**
   * Passes the token in the header field `authorization` if it works, and may ask about `domain` where one is given.
   *
   * Throws QUOTA_UNAUTHENTICATED, QUOTA_FORBIDDEN for a domain that the token is not for, and QUOTA_STORE_UNAVAILABLE
   * while no tokens are known.
   */
  require(authorization: string | undefined, domain?: string): void {
    const { domains } = this.#identify(authorization)
    if (domain === undefined || domains === null || domains.has(domain)) return
    throw new QuotaError('QUOTA_FORBIDDEN', 'the token is not for the domain of this check', {
      problems: [
        {
          field: 'domain',
          message: 'is outside those of the token',
          fix: `name one of ${[...domains].join(', ')}, or use a token for this domain`,
        },
      ],
    })
  }

  #identify(authorization = ''): Known {
    if (this.#tokens === null) {
      const message = 'this enforcer asks for tokens, and its region has not been told of any yet'
      throw new QuotaError('QUOTA_STORE_UNAVAILABLE', message)
    }
    const known = this.#verified.get(authorization) ?? this.#verify(authorization, this.#tokens)
    if (known !== null && this.#clock.wallMs() < known.expiresAtMs) return known
    throw refusal(authorization)
  }

  #verify(authorization: string, tokens: ReadonlyMap<string, Known>): Known | null {
    const parts = parseToken(BEARER.exec(authorization)?.[1] ?? '')
    const known = parts === null ? undefined : tokens.get(parts.id)
    if (parts === null || known === undefined) return null
    if (!timingSafeEqual(parts.digest, known.digest)) return null
    if (this.#verified.size >= VERIFIED_MAX) this.#verified.clear()
    this.#verified.set(authorization, known)
    return known
  }

  /** What was found right under the tokens before is found again. */
  #adopt({ asOfMs, tokens }: CheckTokens): void {
    this.#tokens = new Map(tokens.map((token) => [token.id, knownOf(token)]))
    this.#verified = new Map()
    this.#asOfMs = asOfMs
  }
}

function knownOf({ digest, domains, expiresAtMs }: CheckToken): Known {
  return {
    digest: Buffer.from(digest, 'base64url'),
    domains: domains === null ? null : new Set(domains),
    expiresAtMs: expiresAtMs ?? Number.POSITIVE_INFINITY,
  }
}

function refusal(authorization: string): QuotaError {
  const isGiven = BEARER.test(authorization)
  const problem = isGiven
    ? {
        message: `names a token that is unknown, revoked, expired or without the scope ${CALLER_SCOPE}`,
        fix: `send a token with ${CALLER_SCOPE}: quotaplane token create makes one`,
      }
    : {
        message: 'has no bearer token',
        fix: `send Authorization: Bearer <token>, with a token of the scope ${CALLER_SCOPE}`,
      }
  const detail = isGiven
    ? `the bearer token is unknown, revoked, expired or lacks the scope ${CALLER_SCOPE}`
    : `checks need a bearer token with the scope ${CALLER_SCOPE}: send the header Authorization: Bearer <token>`
  return new QuotaError('QUOTA_UNAUTHENTICATED', detail, {
    problems: [{ field: 'authorization', ...problem }],
  })
}
