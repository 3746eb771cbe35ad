import type { Api, Change, Problem } from './admin-calls.ts'

/** Longest wait for an answer; the page says that it is out of date long before an operator gives up. */
const TIMEOUT_MS = 8_000

/** A stream that cannot even begin in this time is no stream: a proxy that holds it back is found so. */
const STREAM_BEGIN_TIMEOUT_MS = 5_000

/** A refusal of the admin API, in its own words. */
export class ApiError extends Error {
  readonly status: number
  readonly problems: readonly Problem[]

  constructor(status: number, detail: string, problems: readonly Problem[] = []) {
    super(detail)
    this.status = status
    this.problems = problems
  }
}

/** Resources that are of no domain: a token that is limited to some may read them whole. */
const OF_NO_DOMAIN = /^\/v1\/(regions|lags|rollouts|whoami|domains|revisions|explain)\b/

/**
 * The admin API of the server that gave the page, with the token of the person before it. Where `domain` is given, only
 * what is of it is read. `onSignedOut` is called when the token is not taken any more.
 */
export function createApi(options: {
  readonly token: string
  readonly domain: string | null
  readonly onSignedOut: () => void
}): Api {
  const { token, domain, onSignedOut } = options
  const call = async <T>(
    path: string,
    init: RequestInit,
    read: (response: Response) => T | Promise<T>,
    timeoutMs = TIMEOUT_MS,
  ): Promise<T> => {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), timeoutMs)
    const signal = init.signal ? AbortSignal.any([init.signal, late.signal]) : late.signal
    const headers = { ...init.headers, authorization: `Bearer ${token}` }
    try {
      const response = await fetch(path, { ...init, headers, signal, cache: 'no-store' })
      if (response.status === 401) onSignedOut()
      if (!response.ok) throw await refusalOf(response)
      return await read(response)
    } finally {
      clearTimeout(timer)
    }
  }
  return {
    get: <T>(path: string, signal?: AbortSignal) =>
      call(inDomain(path, domain), { ...(signal && { signal }) }, jsonOf<T>),
    ask: <T>(path: string, body: unknown, signal?: AbortSignal) =>
      call(
        path,
        { ...requestOf({ method: 'POST', path, body }), ...(signal && { signal }) },
        jsonOf<T>,
      ),
    plan: <T>(change: Change) =>
      call(withQuery(change.path, 'dryRun', 'true'), requestOf(change), jsonOf<T>),
    async apply(change, key) {
      const request = requestOf(change)
      const headers = { ...request.headers, 'idempotency-key': key }
      return { revision: await call(change.path, { ...request, headers }, revisionOf) }
    },
    stream: (path, headers, signal) =>
      call(
        inDomain(path, domain),
        { headers: { ...headers, accept: 'text/event-stream' }, signal },
        bodyOf,
        STREAM_BEGIN_TIMEOUT_MS,
      ),
  }
}

async function jsonOf<T>(response: Response): Promise<T> {
  return (await response.json()) as T
}

function bodyOf({ body }: Response): ReadableStream<Uint8Array> {
  if (body === null) throw new Error('the stream has no body')
  return body
}

function withQuery(path: string, name: string, value: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}${name}=${encodeURIComponent(value)}`
}

function inDomain(path: string, domain: string | null): string {
  if (domain === null || OF_NO_DOMAIN.test(path) || /[?&]domain=/.test(path)) return path
  return withQuery(path, 'domain', domain)
}

function requestOf({
  method,
  body,
  ifMatch,
  reason,
}: Change): RequestInit & { headers: Record<string, string> } {
  return {
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(ifMatch !== undefined && { 'if-match': `"${ifMatch}"` }),
      // Header fields are ASCII, and reasons are in people's languages (RFC 8187).
      ...(reason && { 'x-change-reason': `UTF-8''${encodeURIComponent(reason)}` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }
}

async function revisionOf(response: Response): Promise<number | null> {
  const text = await response.text()
  const body = text === '' ? {} : (JSON.parse(text) as { revision?: number })
  const tag = /^"(\d+)"$/.exec(response.headers.get('etag') ?? '')?.[1]
  return body.revision ?? (tag === undefined ? null : Number(tag))
}

async function refusalOf(response: Response): Promise<ApiError> {
  const { status } = response
  try {
    const problem = (await response.json()) as {
      detail?: string
      title?: string
      errors?: Problem[]
    }
    return new ApiError(
      status,
      problem.detail ?? problem.title ?? `admin answered ${status}`,
      problem.errors,
    )
  } catch {
    return new ApiError(status, `admin answered ${status}`)
  }
}
