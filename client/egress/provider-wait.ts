/** Reads from a provider's answer how long it asks its callers to stay away. */

/** What is needed of a `Response`'s headers. */
export interface HeaderReader {
  get(name: string): string | null
}

/** A larger figure is taken for a mistake or an attack: nobody waits a day inside a request. */
export const PROVIDER_WAIT_MS_MAX = 86_400_000

/** Seconds since 1970 and seconds to wait are told apart by size: no provider asks for thirty years. */
const EPOCH_SECONDS_MIN = 1_000_000_000

/**
 * Wait that the provider asks for, ms; null when it asks for none.
 *
 * `Retry-After` (RFC 9110: seconds or a date) counts on a 429 or 503. Otherwise a remaining quota of zero counts
 * until its reset, from `RateLimit` (IETF draft), or from `RateLimit-*` or `X-RateLimit-*`, whose reset may be
 * seconds or an instant. What cannot be read is no wait.
 */
export function providerWaitMs(
  status: number,
  headers: HeaderReader,
  nowMs: number,
): number | null {
  if (status === 429 || status === 503) {
    const asked = retryAfterMs(headers.get('retry-after'), nowMs)
    if (asked !== null) return asked
  }
  return exhaustedMs(headers, nowMs)
}

/**
 * When the provider answered, by its own clock where it says so: a date to wait until is of that clock, and this host's
 * may be some minutes off.
 */
export function answeredAtMs(headers: HeaderReader): number {
  const dateMs = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(dateMs) ? Date.now() : dateMs
}

function retryAfterMs(text: string | null, nowMs: number): number | null {
  if (text === null) return null
  const trimmed = text.trim()
  if (/^\d+(\.\d+)?$/.test(trimmed)) return bounded(Number(trimmed) * 1_000)
  // Date.parse takes nearly anything for a date; every form of an HTTP date begins with the day's name.
  const dateMs = /^[A-Z][a-z]{2}/.test(trimmed) ? Date.parse(trimmed) : Number.NaN
  return Number.isNaN(dateMs) ? null : bounded(dateMs - nowMs)
}

function exhaustedMs(headers: HeaderReader, nowMs: number): number | null {
  const structured = headers.get('ratelimit')
  if (structured !== null) return structuredResetMs(structured)
  for (const prefix of ['ratelimit', 'x-ratelimit']) {
    const remaining = headers.get(`${prefix}-remaining`)
    const reset = headers.get(`${prefix}-reset`)
    if (remaining === null || reset === null) continue
    if (Number.parseFloat(remaining) > 0 || !/^\s*\d+(\.\d+)?/.test(reset)) return null
    const seconds = Number.parseFloat(reset)
    return bounded(seconds >= EPOCH_SECONDS_MIN ? seconds * 1_000 - nowMs : seconds * 1_000)
  }
  return null
}

/** `"name";r=0;t=30, …`: the longest wait among the policies that have nothing left. */
function structuredResetMs(text: string): number | null {
  let longestMs: number | null = null
  for (const item of text.split(',')) {
    const remaining = /;\s*r=(\d+)/.exec(item)?.[1]
    const reset = /;\s*t=(\d+)/.exec(item)?.[1]
    if (remaining === undefined || reset === undefined || Number(remaining) > 0) continue
    longestMs = Math.max(longestMs ?? 0, bounded(Number(reset) * 1_000))
  }
  return longestMs
}

function bounded(ms: number): number {
  return Math.min(Math.max(0, Math.ceil(ms)), PROVIDER_WAIT_MS_MAX)
}
