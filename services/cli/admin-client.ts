import { z } from 'zod'
import { CliError } from './errors.ts'

/** Every call has this deadline: an operator must not be left waiting, and admin answers in milliseconds. */
const CALL_TIMEOUT_MS = 10_000

/** Largest part of an unexpected answer that is shown. */
const SHOWN_CHARS_MAX = 300

const problemSchema = z.object({
  title: z.string().optional(),
  detail: z.string().optional(),
  code: z.string().optional(),
  errors: z
    .array(z.object({ field: z.string(), message: z.string(), fix: z.string().optional() }))
    .optional(),
})

export type ProblemDocument = z.infer<typeof problemSchema>

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

  constructor(options: { url: string; token: string | null; signal?: AbortSignal | undefined }) {
    this.url = options.url.replace(/\/+$/, '')
    this.#token = options.token
    this.#signal = options.signal
  }

  async call(request: AdminRequest): Promise<AdminAnswer> {
    const what = `${request.method} ${request.path}`
    const response = await this.#fetch(request, what)
    const text = await response.text()
    const body = parseJson(text)
    if (!response.ok && !request.accepts?.includes(response.status)) {
      const problem = problemSchema.safeParse(body)
      const detail = text.slice(0, SHOWN_CHARS_MAX)
      throw new AdminRefusal(what, response.status, problem.success ? problem.data : { detail })
    }
    return { status: response.status, body, etag: response.headers.get('etag') }
  }

  async #fetch(request: AdminRequest, what: string): Promise<Response> {
    const timeout = AbortSignal.timeout(CALL_TIMEOUT_MS)
    const signal = this.#signal === undefined ? timeout : AbortSignal.any([timeout, this.#signal])
    try {
      return await fetch(`${this.url}${request.path}`, {
        method: request.method,
        headers: {
          accept: 'application/json',
          ...(request.body !== undefined && { 'content-type': 'application/json' }),
          ...(this.#token !== null && { authorization: `Bearer ${this.#token}` }),
          ...request.headers,
        },
        ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
        signal,
      })
    } catch (err) {
      throw new CliError(unreachable(this.url, what, err))
    }
  }
}

function unreachable(url: string, what: string, err: unknown): string {
  const cause = err instanceof Error && err.cause instanceof Error ? err.cause : err
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause)
  if (code === 'ECONNREFUSED') {
    return `nothing answers at ${url}: is the plane up (quotaplane up), or is --admin-url another one?`
  }
  return `admin at ${url} did not answer ${what} (${code})`
}

function describeProblem(what: string, status: number, problem: ProblemDocument): string {
  if (status === 401 || status === 403) {
    return `admin refused the token (${status}): give --token or set QUOTAPLANE_TOKEN`
  }
  const head = problem.detail ?? problem.title ?? `${what} failed with ${status}`
  const lines = (problem.errors ?? []).map((error) => `  ${describeField(error)}`)
  return [head, ...lines].join('\n')
}

/** One line for one field of a problem document. */
export function describeField(error: {
  field: string
  message: string
  fix?: string | undefined
}): string {
  const fix = error.fix === undefined ? '' : ` (${error.fix})`
  return `${error.field}: ${error.message}${fix}`
}

function parseJson(text: string): unknown {
  try {
    return text === '' ? null : JSON.parse(text)
  } catch {
    return null // Not JSON: a proxy's page, say. The caller's schema or the status tells.
  }
}
