/** Longest wait for an answer; the page says that it is out of date long before an operator gives up. */
const TIMEOUT_MS = 8_000

/** A refusal of the admin API, in its own words. */
export class ApiError extends Error {
  readonly status: number

  constructor(status: number, detail: string) {
    super(detail)
    this.status = status
  }
}

export interface Api {
  /** Rejects with ApiError when admin refuses, and with another error when it cannot be reached in time. */
  get<T>(path: string, signal?: AbortSignal): Promise<T>
  send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<Answer<T>>
}

export interface Answer<T> {
  readonly body: T
  readonly etag: string | null
}

/**
 * The admin API of the server that gave the page, with the token of the person before it. `onSignedOut` is called when
 * the token is not taken any more.
 */
export function createApi(token: string, onSignedOut: () => void): Api {
  const call = async (path: string, init: RequestInit): Promise<Response> => {
    const deadline = AbortSignal.timeout(TIMEOUT_MS)
    const signal = init.signal ? AbortSignal.any([init.signal, deadline]) : deadline
    const headers = { authorization: `Bearer ${token}`, ...init.headers }
    const response = await fetch(path, { ...init, headers, signal, cache: 'no-store' })
    if (response.status === 401) onSignedOut()
    if (!response.ok) throw new ApiError(response.status, await detailOf(response))
    return response
  }
  return {
    async get<T>(path: string, signal?: AbortSignal) {
      const response = await call(path, signal ? { signal } : {})
      return (await response.json()) as T
    },
    async send<T>(method: string, path: string, body?: unknown) {
      const response = await call(path, {
        method,
        headers: {
          'idempotency-key': crypto.randomUUID(),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      return {
        body: (text === '' ? null : JSON.parse(text)) as T,
        etag: response.headers.get('etag'),
      }
    },
  }
}

async function detailOf(response: Response): Promise<string> {
  try {
    const problem = (await response.json()) as { detail?: string; title?: string }
    return problem.detail ?? problem.title ?? `admin answered ${response.status}`
  } catch {
    return `admin answered ${response.status}`
  }
}
