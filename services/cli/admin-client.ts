import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { z } from 'zod'
import { problemSchema } from '../../shared/protocol/admin-replies.ts'
import { CliError } from './errors.ts'
import { reasonHeader } from './reason.ts'

/** Every call has this deadline: an operator must not be left waiting, and admin answers in milliseconds. */
const CALL_TIMEOUT_MS = 10_000

/**
 * Waits before a call is tried again: a moment for a connection that was cut, then as long as Postgres takes to start.
 * A write is repeated with its key, so it is carried out once however many of its answers were lost.
 */
const RETRY_WAITS_MS = [200, 1_000]

/** Largest part of an unexpected answer that is shown. */
const SHOWN_CHARS_MAX = 300

/** What may stand in front of admin answers with less than a whole problem document. */
const partialProblemSchema = problemSchema.partial()
export type ProblemDocument = z.infer<typeof partialProblemSchema>

/** Pages of a listing that are read; at a page of a hundred, far beyond what a plane holds. */
const PAGES_MAX = 1_000

/** An answer of admin: the body parsed from JSON, the entity tag when there is one. */
export interface AdminAnswer {
  readonly status: number
  readonly body: unknown
  readonly etag: string | null
}

/** A refusal by admin, with the problem document that explains it. */
export class AdminRefusal extends CliError {
  readonly status: number
  readonly problem: ProblemDocument

  constructor(what: string, status: number, problem: ProblemDocument) {
    super(describeProblem(what, status, problem))
    this.status = status
    this.problem = problem
  }
}

export interface AdminRequest {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Statuses other than 2xx that the caller handles. */
  readonly accepts?: readonly number[]
  /** Deadline of a call that admin takes longer for than for others. */
  readonly timeoutMs?: number
}

/**
 * Calls admin over HTTP with a bearer token and a deadline.
 *
 * Rejects with one clear line when admin cannot be reached, and with `AdminRefusal` on any other refusal.
 */
export class AdminClient {
  readonly url: string
  readonly #token: string | null
  readonly #signal: AbortSignal | undefined
  readonly #reason: string | undefined

  constructor(options: {
    readonly url: string
    readonly token: string | null
    readonly signal?: AbortSignal | undefined
    /** Why the operator changes what this client changes, for the history. */
    readonly reason?: string | undefined
  }) {
    this.url = options.url.replace(/\/+$/, '')
    this.#token = options.token
    this.#signal = options.signal
    this.#reason = options.reason
  }

  async call(request: AdminRequest): Promise<AdminAnswer> {
    const what = `${request.method} ${request.path}`
    const { response, text } = await this.#fetchAgain(request, what)
    if (!response.ok && !request.accepts?.includes(response.status)) {
      throw refusalOf(response.status, text, what)
    }
    const body = parseJson(text)
    return { status: response.status, body, etag: response.headers.get('etag') }
  }

  /** Reads every page of a listing; `path` may carry a query. */
  async readPages<Page extends { readonly next: string | null }>(
    path: string,
    schema: z.ZodType<Page>,
  ): Promise<readonly Page[]> {
    const pages: Page[] = []
    let cursor: string | null = null
    do {
      const separator = path.includes('?') ? '&' : '?'
      const at: string = cursor === null ? '' : `${separator}cursor=${encodeURIComponent(cursor)}`
      const answer = await this.call({ method: 'GET', path: `${path}${at}` })
      const page = parseReply(schema, answer.body)
      pages.push(page)
      cursor = page.next
    } while (cursor !== null && pages.length < PAGES_MAX)
    return pages
  }

  /**
   * The lines of an answer that goes on for as long as admin sends: JSON lines, or a stream of events. Only its
   * beginning has a deadline. Ends when the other side does; rejects when it breaks off, as it does by `until`.
   */
  async *lines(
    path: string,
    headers: Readonly<Record<string, string>>,
    until?: AbortSignal,
  ): AsyncGenerator<string> {
    const what = `GET ${path}`
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), CALL_TIMEOUT_MS)
    const signals = [late.signal, this.#signal, until].filter((one) => one !== undefined)
    const request = { method: 'GET', path, headers } as const
    const response = await this.#fetch(request, what, AbortSignal.any(signals)).finally(() =>
      clearTimeout(timer),
    )
    if (!response.ok) throw refusalOf(response.status, await response.text(), what)
    let rest = ''
    const decoder = new TextDecoder()
    try {
      for await (const bytes of response.body ?? []) {
        const lines = `${rest}${decoder.decode(bytes, { stream: true })}`.split('\n')
        rest = lines.pop() ?? ''
        yield* lines
      }
    } catch (err) {
      throw new CliError(`the answer to ${what} broke off (${String(err)})`)
    }
    if (rest !== '') yield rest
  }

  /** Tries again where no answer came, or one that says that it may be tried again. */
  async #fetchAgain(request: AdminRequest, what: string): Promise<WholeAnswer> {
    const headers = { ...this.#writeHeaders(request), ...request.headers }
    const fetchWhole = async (): Promise<WholeAnswer> => {
      const response = await this.#fetch({ ...request, headers }, what)
      return { response, text: await this.#told(what, () => response.text()) }
    }
    for (const waitMs of RETRY_WAITS_MS) {
      const answer = await fetchWhole().catch((err: unknown) => {
        if (err instanceof RefusedConnection || this.#signal?.aborted === true) throw err
        return null
      })
      if (answer !== null && answer.response.status !== 503) return answer
      await delay(waitMs)
    }
    return await fetchWhole()
  }

  #writeHeaders({ method }: AdminRequest): Readonly<Record<string, string>> {
    if (method === 'GET') return {}
    return {
      'idempotency-key': randomUUID(),
      ...(this.#reason !== undefined && reasonHeader(this.#reason)),
    }
  }

  async #fetch(request: AdminRequest, what: string, until?: AbortSignal): Promise<Response> {
    const timeout = AbortSignal.timeout(request.timeoutMs ?? CALL_TIMEOUT_MS)
    const given = this.#signal === undefined ? timeout : AbortSignal.any([timeout, this.#signal])
    const signal = until ?? given
    const init = {
      method: request.method,
      headers: {
        accept: 'application/json',
        ...(request.body !== undefined && { 'content-type': 'application/json' }),
        ...(this.#token !== null && { authorization: `Bearer ${this.#token}` }),
        ...request.headers,
      },
      ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
      signal,
    }
    return await this.#told(what, () => fetch(`${this.url}${request.path}`, init))
  }

  /** A failure of `work` in words for the operator. */
  async #told<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (err) {
      const message = unreachable(this.url, what, err)
      throw codeOf(err) === 'ECONNREFUSED' ? new RefusedConnection(message) : new CliError(message)
    }
  }
}

/** The reply that `body` holds; rejects an answer of another shape, such as a proxy's. */
export function parseReply<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new CliError(
    `the answer is not admin's (${issue?.path.join('.')}: ${issue?.message}): is --admin-url right?`,
  )
}

function refusalOf(status: number, text: string, what: string): AdminRefusal {
  const problem = partialProblemSchema.safeParse(parseJson(text))
  const detail = text.slice(0, SHOWN_CHARS_MAX)
  return new AdminRefusal(what, status, problem.success ? problem.data : { detail })
}

interface WholeAnswer {
  readonly response: Response
  readonly text: string
}

/** Nobody listens, so trying again at once is no use. */
class RefusedConnection extends CliError {}

function codeOf(err: unknown): string {
  const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err
  return cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause)
}

function unreachable(url: string, what: string, err: unknown): string {
  const code = codeOf(err)
  if (code === 'ECONNREFUSED') {
    return `nothing answers at ${url}: is the plane up (quotaplane up), or is --admin-url another one?`
  }
  return `admin at ${url} did not answer ${what} (${code})`
}

function describeProblem(what: string, status: number, problem: ProblemDocument): string {
  if (status === 401) {
    return `admin refused the token (${problem.detail ?? status}): give --token or set QUOTAPLANE_TOKEN`
  }
  // The detail repeats what the fields say, without the fixes.
  const fields = (problem.errors ?? []).map(describeField)
  if (fields.length > 0) return fields.join('\n')
  return asCommands(problem.detail ?? problem.title ?? `${what} failed with ${status}`)
}

/** Admin tells of its routes, and whoever reads it here has this command. */
const COMMANDS: readonly (readonly [RegExp, string])[] = [
  [/POST \/v1\/regions\/([\w-]+)\/remove/g, 'quotaplane region remove $1 --certify'],
  [/POST \/v1\/regions\/([\w-]+)\/(drain|resume)/g, 'quotaplane region $2 $1'],
  [/PUT \/v1\/regions\/([\w-]+)/g, 'quotaplane region register $1'],
  [/GET \/v1\/regions\/([\w-]+)/g, 'quotaplane region list'],
  [/GET \/v1\/revisions/g, 'quotaplane revision list'],
]

function asCommands(text: string): string {
  return COMMANDS.reduce((told, [route, command]) => told.replace(route, command), text)
}

/** One line for one field of a problem document. */
export function describeField(error: {
  field: string
  message: string
  fix?: string | undefined
}): string {
  const fix = error.fix === undefined ? '' : ` (${asCommands(error.fix)})`
  return `${error.field}: ${error.message}${fix}`
}

function parseJson(text: string): unknown {
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    return null // Not JSON: a proxy's page, say. The caller's schema or the status tells.
  }
}
