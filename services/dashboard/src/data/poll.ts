import { useEffect, useState } from 'preact/hooks'
import type { Api } from './admin-calls.ts'
import { ApiError } from './api.ts'
import { pause } from './pause.ts'

/** What is known of one view: the newest answer, when it came, and what went wrong since. */
export interface Polled<T> {
  readonly data: T | null
  /** `performance.now()` of the answer; null before the first. */
  readonly atMs: number | null
  readonly problem: string | null
}

const NOTHING = { data: null, atMs: null, problem: null }

/** An answer belongs to what was asked: under any other path, or for another domain, it would be somebody else's. */
interface Kept<T> {
  readonly api: Api
  readonly path: string | null
  readonly polled: Polled<T>
}

/** Wait after a failure, doubled up to the second number, so that a server that returns is not stormed. */
const RETRY_MS = [1_000, 15_000] as const

/**
 * Asks for `path` every `intervalMs` and after each failure, never twice at a time, and not while the page is hidden.
 * An answer that failed leaves the last one in place: the page shows its age.
 */
export function usePoll<T>(api: Api, path: string | null, intervalMs: number): Polled<T> {
  const [kept, setKept] = useState<Kept<T>>({ api, path, polled: NOTHING })
  useEffect(() => {
    // Nor is it kept for when the same is asked for again: by then it is old.
    setKept((now) => (isFor(now, api, path) ? now : { api, path, polled: NOTHING }))
    if (path === null) return
    const stop = new AbortController()
    const set = (update: (last: Polled<T>) => Polled<T>): void =>
      setKept((now) => ({ api, path, polled: update(answerOf(now, api, path)) }))
    void repeat({ api, path, intervalMs, signal: stop.signal, set })
    return () => stop.abort()
  }, [api, path, intervalMs])
  return answerOf(kept, api, path)
}

function answerOf<T>(kept: Kept<T>, api: Api, path: string | null): Polled<T> {
  return isFor(kept, api, path) ? kept.polled : NOTHING
}

function isFor<T>(kept: Kept<T>, api: Api, path: string | null): boolean {
  return kept.api === api && kept.path === path
}

async function repeat<T>(options: {
  readonly api: Api
  readonly path: string
  readonly intervalMs: number
  readonly signal: AbortSignal
  readonly set: (update: (last: Polled<T>) => Polled<T>) => void
}): Promise<void> {
  const { api, path, intervalMs, signal, set } = options
  let retryMs: number = RETRY_MS[0]
  while (!signal.aborted) {
    let waitMs = intervalMs
    try {
      const data = await api.get<T>(path, signal)
      if (signal.aborted) return
      set(() => ({ data, atMs: performance.now(), problem: null }))
      retryMs = RETRY_MS[0]
    } catch (err) {
      if (signal.aborted) return
      const problem = err instanceof ApiError ? err.message : 'admin cannot be reached'
      set((last) => ({ ...last, problem }))
      waitMs = retryMs
      retryMs = Math.min(2 * retryMs, RETRY_MS[1])
    }
    await pause(waitMs, signal)
  }
}
