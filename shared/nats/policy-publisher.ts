import type { Msg, NatsConnection } from 'nats'
import type { RegionId } from '../core/policy.ts'
import { isQuotaError } from '../errors.ts'
import { type ChangesRead, encodePage, pageOf, requireKnown } from '../protocol/changes-page.ts'
import {
  CHANGES_PAGE_MAX,
  changesRequestSchema,
  decodeMessage,
  type IncarnationReply,
  incarnationRequestSchema,
  POLICY_MESSAGES_VERSION,
  type PolicyHint,
  TOKENS_PAGE_MAX,
} from '../protocol/policy-messages.ts'
import {
  type StockReply,
  type StockRequest,
  stockRequestSchema,
} from '../protocol/stock-messages.ts'
import {
  ADMIN_QUEUE,
  INCARNATION_SUBJECTS,
  mayBeAnsweredAt,
  POLICY_CHANGES_SUBJECT,
  POLICY_REVISION_SUBJECT,
  regionOfSubject,
  STOCK_SUBJECTS,
} from '../protocol/subjects.ts'
import type { TokensPage, TokensReply } from '../protocol/token-messages.ts'
import { createFailureLog, type FailureLog } from '../runtime/failure-log.ts'
import type { Logger } from '../runtime/logger.ts'
import { type TraceFields, type Tracer, traced } from '../runtime/tracing/tracer.ts'
import { fieldsOf, type NatsLink } from './client.ts'

/** Kinds of questions. */
export type QuestionKind = 'changes' | 'incarnation' | 'stock'

/** Where the answers come from. All reject with a QuotaError while the source cannot answer. */
export interface PolicySource {
  /** At most `limit` changes with a revision above `after`, in the order of their revisions. */
  readChanges(query: { readonly after: number; readonly limit: number }): Promise<ChangesRead>
  /** At most `limit` of the tokens for checks with an id after `after`, in the order of their ids. */
  readCheckTokens(query: { readonly after: string; readonly limit: number }): Promise<TokensPage>
  takeIncarnation(question: {
    readonly region: RegionId
    readonly requestId: string
    readonly atLeast: number
  }): Promise<{ readonly incarnation: number; readonly first: boolean }>
  /** Opens windows and gives tokens; durable once it resolves. */
  answerStock(region: RegionId, request: Omit<StockRequest, 'v'>): Promise<Omit<StockReply, 'v'>>
}

export interface PolicyPublisherOptions {
  readonly link: NatsLink
  readonly source: PolicySource
  readonly log: Logger
  /** Told of each question: which kind, and how it ended. */
  readonly onAnswer?: (kind: QuestionKind, outcome: 'answered' | 'refused') => void
  readonly tracer?: Tracer | undefined
}

/**
 * Tells the regions of the newest revision and answers what they ask. Answers refusals too, so that a region
 * need not wait for a time-out; holds no state, so any number of admins may run.
 */
export class PolicyPublisher {
  readonly #options: PolicyPublisherOptions
  readonly #failures: FailureLog

  constructor(options: PolicyPublisherOptions) {
    this.#options = options
    this.#failures = createFailureLog({
      log: options.log,
      fields: {},
      failedMessage: 'question of a region refused',
      succeededMessage: 'questions of regions are answered again',
    })
    options.link.use((connection) => this.#listen(connection))
  }

  /** With the mark of the tokens for checks once it is known. Dropped while NATS is away: the next one says as much. */
  announce(revision: number, tokens?: string | null, fields?: TraceFields): void {
    const head = { v: POLICY_MESSAGES_VERSION, revision } as const
    const hint: PolicyHint = tokens ? { ...head, tokens } : head
    this.#options.link.publish(POLICY_REVISION_SUBJECT, JSON.stringify(hint), fields)
  }

  #listen(connection: NatsConnection): void {
    const answer = (
      subject: string,
      kind: QuestionKind,
      reply: (message: Msg) => Promise<string>,
    ): void => {
      connection.subscribe(subject, {
        queue: ADMIN_QUEUE,
        callback: (err, message) => {
          if (err === null) void this.#answer(kind, message, () => this.#traced(message, reply))
        },
      })
    }
    answer(POLICY_CHANGES_SUBJECT, 'changes', (message) => this.#changes(message))
    answer(INCARNATION_SUBJECTS, 'incarnation', async (message) =>
      JSON.stringify(await this.#incarnation(message)),
    )
    answer(STOCK_SUBJECTS, 'stock', async (message) => JSON.stringify(await this.#stock(message)))
  }

  /** Only what a traced asker asked: a region asks for stock all day. */
  #traced<T>(message: Msg, reply: (message: Msg) => Promise<T>): Promise<T> {
    const from = fieldsOf(message)
    if (from('traceparent') === undefined) return reply(message)
    const name = 'answer a region'
    return traced(this.#options.tracer, { name, kind: 'server', from }, () => reply(message))
  }

  async #changes(message: Msg): Promise<string> {
    const request = decodeMessage(changesRequestSchema, message.string())
    if (request.tokens !== undefined) return await this.#tokens(request.tokens.after)
    const after = Math.max(request.since, request.after ?? 0)
    const page = pageOf(await this.#options.source.readChanges({ after, limit: CHANGES_PAGE_MAX }))
    requireKnown(page.changes, request.format)
    return encodePage(page)
  }

  async #tokens(after: string): Promise<string> {
    const tokens = await this.#options.source.readCheckTokens({ after, limit: TOKENS_PAGE_MAX })
    const reply: TokensReply = { v: POLICY_MESSAGES_VERSION, tokens }
    return JSON.stringify(reply)
  }

  async #incarnation(message: Msg): Promise<IncarnationReply> {
    const { requestId, atLeast } = decodeMessage(incarnationRequestSchema, message.string())
    const region = regionNamedBy(message)
    const taken = await this.#options.source.takeIncarnation({ region, requestId, atLeast })
    return { v: POLICY_MESSAGES_VERSION, ...taken }
  }

  async #stock(message: Msg): Promise<StockReply> {
    const { question, windows, asks } = decodeMessage(stockRequestSchema, message.string())
    const region = regionNamedBy(message)
    const answer = await this.#options.source.answerStock(region, { question, windows, asks })
    return { v: POLICY_MESSAGES_VERSION, ...answer }
  }

  async #answer(kind: QuestionKind, message: Msg, reply: () => Promise<string>): Promise<void> {
    const region = kind === 'changes' ? null : regionOfSubject(message.subject)
    if (!mayBeAnsweredAt(message.reply, region)) {
      // Nothing is done either: who asks without listening has no use for it.
      this.#options.onAnswer?.(kind, 'refused')
      this.#failures.failed(new Error(`${message.subject} asked for an answer at another's place`))
      return
    }
    try {
      message.respond(await reply())
      this.#options.onAnswer?.(kind, 'answered')
      this.#failures.succeeded()
    } catch (err) {
      this.#options.onAnswer?.(kind, 'refused')
      this.#failures.failed(err)
      const error = isQuotaError(err) ? err.message : 'admin failed to answer; its log says why'
      // The connection may be what failed; the asker's time-out then says so.
      if (!this.#options.link.isConnected()) return
      message.respond(JSON.stringify({ v: POLICY_MESSAGES_VERSION, error }))
    }
  }
}

function regionNamedBy({ subject }: Msg): RegionId {
  const region = regionOfSubject(subject)
  if (region === null) throw new Error(`${subject} names no region`)
  return region
}
