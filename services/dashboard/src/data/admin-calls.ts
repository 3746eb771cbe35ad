/** What the page asks of admin. */
/** One thing that is wrong with a request, and how to mend it. */
export interface Problem {
  readonly field: string
  readonly message: string
  readonly fix?: string
}

/** A change of the plane, or the plan of one. */
export interface Change {
  readonly method: 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  /** Revision of the state that the change is based on. */
  readonly ifMatch?: number
  readonly reason?: string
}

export interface Api {
  /** Rejects with ApiError when admin refuses, and with another error when it cannot be reached in time. */
  get<T>(path: string, signal?: AbortSignal): Promise<T>
  /** The answer of a POST that changes nothing. */
  ask<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T>
  /** What the change would do. */
  plan<T>(change: Change): Promise<T>
  /** Carries a change out once, however often it is sent with the same key. Gives the revision where admin tells it. */
  apply(change: Change, key: string): Promise<{ readonly revision: number | null }>
  /** The bytes of a stream; it ends with `signal`. */
  stream(
    path: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array>>
}
