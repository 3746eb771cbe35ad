import type { Msg } from 'nats'
import type { CheckToken, CheckTokens } from '../core/check-tokens.ts'
import type { Membership } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import { QuotaError } from '../errors.ts'
import {
  type ChangesReply,
  changesReplySchema,
  decodeMessage,
  type IncarnationReply,
  incarnationReplySchema,
  PLANE_POLICY_FORMAT,
  POLICY_MESSAGES_VERSION,
  type PolicyChange,
  policyHintSchema,
} from '../protocol/policy-messages.ts'
import { type StockReply, type StockRequest, stockReplySchema } from '../protocol/stock-messages.ts'
import {
  incarnationSubject,
  POLICY_CHANGES_SUBJECT,
  POLICY_REVISION_SUBJECT,
  stockSubject,
} from '../protocol/subjects.ts'
import { tokensReplySchema } from '../protocol/token-messages.ts'
import type { Tracer } from '../runtime/tracing/tracer.ts'
import { fieldsOf, type NatsLink } from './client.ts'

/** How long one reply may take. Admin reads a page from Postgres; longer only delays the next attempt. */
const REPLY_TIMEOUT_MS = 2_000

/** Most pages of one series: far above what the largest plane needs, so only a fault of admin's reaches it. */
const PAGES_MAX = 10_000

/** Most pages of tokens: twice what the most tokens of a plane fill. */
const TOKEN_PAGES_MAX = 64

/** How long a series that failed is worth going on with. */
const SERIES_KEPT_MS = 10_000

interface Series {
  readonly since: number
  after: number | undefined
  readonly changes: PolicyChange[]
  revision: number
  /** When its last page came, by this process's clock. */
  heardMs: number
}

/** All that changed since a revision, and the revision and members as of the last of it. */
export interface ChangesSince extends Membership {
  readonly revision: number
  readonly changes: readonly PolicyChange[]
}

/** All tokens for checks, and the mark that admin gives them. */
export interface MarkedTokens extends CheckTokens {
  readonly mark: string
}

/** Told of a revision, and how to read the header fields that came with it. */
export type RevisionHandler = (
  revision: number,
  field?: (name: string) => string | undefined,
) => void

/**
 * What a region asks of admin, over NATS. Every question is safe to ask again.
 *
 * Each rejects with QUOTA_BUS_UNAVAILABLE while NATS or admin is away, and with QUOTA_INVALID_INPUT when the
 * answer is not one of this version.
 */
export class NatsPolicyClient {
  readonly #link: NatsLink
  readonly #tracer: Tracer | undefined
  readonly #onBadHint: (err: unknown) => void
  readonly #handlers: RevisionHandler[] = []
  readonly #tokenHandlers: ((mark: string) => void)[] = []
  /** A series that failed on its way. */
  #failed: Series | null = null

  /** With a `tracer`, questions carry the trace of whoever asks them. */
  constructor(link: NatsLink, onBadHint: (err: unknown) => void, tracer?: Tracer) {
    this.#link = link
    this.#tracer = tracer
    this.#onBadHint = onBadHint
    link.use((connection) => {
      connection.subscribe(POLICY_REVISION_SUBJECT, {
        callback: (err, message) => {
          if (err === null) this.#receiveHint(message)
          else this.#onBadHint(err)
        },
      })
    })
  }

  /** Calls `handle` with each revision that admin says is the newest. Hints may be lost, repeated or late. */
  onRevision(handle: RevisionHandler): void {
    this.#handlers.push(handle)
  }

  /** Calls `handle` with each mark that admin gives the tokens for checks. Hints may be lost, repeated or late. */
  onTokensMark(handle: (mark: string) => void): void {
    this.#tokenHandlers.push(handle)
  }

  /**
   * All tokens for checks, as they were at some instant since the call. Rejects with QUOTA_BUS_UNAVAILABLE also when
   * they changed while their pages came, and when an admin answered that knows nothing of them.
   */
  async checkTokens(): Promise<MarkedTokens> {
    const tokens: CheckToken[] = []
    let first: MarkedTokens | null = null
    let after = ''
    for (let page = 0; page < TOKEN_PAGES_MAX; page++) {
      const { mark, asOfMs, items, next } = await this.#askTokens(after)
      first ??= { mark, asOfMs, tokens }
      if (mark !== first.mark) {
        throw new QuotaError('QUOTA_BUS_UNAVAILABLE', 'the tokens changed while they were read')
      }
      tokens.push(...items)
      if (next === null) return first
      after = next
    }
    throw new QuotaError(
      'QUOTA_BUS_UNAVAILABLE',
      `more than ${TOKEN_PAGES_MAX} pages of tokens came`,
    )
  }

  /**
   * Everything that changed after revision `since`, in the order of revisions; 0 asks for all there is.
   *
   * Goes on where the last series for the same `since` failed a moment ago: a large plane on a slow line would
   * otherwise begin again and again. The end of a series has all that changed while it ran.
   */
  async changesSince(since: number): Promise<ChangesSince> {
    const series = this.#takeSeries(since)
    try {
      return await this.#readOn(series)
    } catch (err) {
      this.#failed = series
      throw err
    }
  }

  /** A number above `atLeast` and above all that the region had; the same for the same `requestId`. */
  async nextIncarnation(ask: {
    readonly region: RegionId
    readonly requestId: string
    readonly atLeast: number
  }): Promise<IncarnationReply> {
    const { region, requestId, atLeast } = ask
    const request = JSON.stringify({ v: POLICY_MESSAGES_VERSION, requestId, atLeast })
    const reply = await this.#request(incarnationSubject(region), request)
    return decodeMessage(incarnationReplySchema, reply)
  }

  /** Windows opened and tokens given. The same question again is answered as before. */
  async askStock(region: RegionId, ask: Omit<StockRequest, 'v'>): Promise<StockReply> {
    const request = JSON.stringify({ v: POLICY_MESSAGES_VERSION, ...ask })
    const reply = await this.#request(stockSubject(region), request)
    return decodeMessage(stockReplySchema, reply)
  }

  /** The series that failed, or a new one. */
  #takeSeries(since: number): Series {
    const failed = this.#failed
    this.#failed = null
    const isFresh = failed !== null && performance.now() - failed.heardMs < SERIES_KEPT_MS
    if (isFresh && failed.since === since) return failed
    return { since, after: undefined, changes: [], revision: 0, heardMs: Number.NEGATIVE_INFINITY }
  }

  async #readOn(series: Series): Promise<ChangesSince> {
    const { since, changes } = series
    for (let page = 0; page < PAGES_MAX; page++) {
      const reply = await this.#askPage(since, series.after)
      if (reply.revision < series.revision) {
        // Somebody restored an older database meanwhile: what came before is of another history.
        series.heardMs = Number.NEGATIVE_INFINITY
        throw new QuotaError('QUOTA_BUS_UNAVAILABLE', 'admin went back to an older revision')
      }
      changes.push(...reply.changes)
      series.revision = reply.revision
      series.heardMs = performance.now()
      if (reply.next === null) {
        const { v: _version, next: _next, ...head } = reply
        return { ...head, changes }
      }
      series.after = reply.next
    }
    series.heardMs = Number.NEGATIVE_INFINITY
    throw new QuotaError('QUOTA_BUS_UNAVAILABLE', `more than ${PAGES_MAX} pages of changes came`)
  }

  async #askPage(since: number, after: number | undefined): Promise<ChangesReply> {
    const v = POLICY_MESSAGES_VERSION
    const request = JSON.stringify({ v, since, after, format: PLANE_POLICY_FORMAT })
    const reply = await this.#request(POLICY_CHANGES_SUBJECT, request)
    return decodeMessage(changesReplySchema, reply)
  }

  /** `since` is what an admin that knows nothing of tokens reads: nothing changed after it, so little comes back. */
  async #askTokens(after: string) {
    const head = { v: POLICY_MESSAGES_VERSION, since: Number.MAX_SAFE_INTEGER }
    const request = JSON.stringify({ ...head, format: PLANE_POLICY_FORMAT, tokens: { after } })
    const reply = await this.#request(POLICY_CHANGES_SUBJECT, request)
    const { tokens } = decodeMessage(tokensReplySchema, reply)
    if (tokens !== undefined) return tokens
    const message =
      'an admin of an earlier version answered, which knows nothing of tokens for checks'
    throw new QuotaError('QUOTA_BUS_UNAVAILABLE', message)
  }

  #request(subject: string, request: string): Promise<string> {
    return this.#link.request(subject, request, REPLY_TIMEOUT_MS, this.#tracer?.fields())
  }

  #receiveHint(message: Msg): void {
    try {
      const { revision, tokens } = decodeMessage(policyHintSchema, message.string())
      for (const handle of this.#handlers) handle(revision, fieldsOf(message))
      if (tokens !== undefined) for (const handle of this.#tokenHandlers) handle(tokens)
    } catch (err) {
      if (!(err instanceof QuotaError)) throw err
      this.#onBadHint(err)
    }
  }
}
