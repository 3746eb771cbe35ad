/** How long to wait between attempts: base times two to the attempt, at most `maxMs`, times a random part. */
export interface BackoffOptions {
  readonly baseMs: number
  readonly maxMs: number
}

/** Beyond this the power of two is larger than any bound; keeps the product finite. */
const DOUBLINGS_MAX = 30

/**
 * Wait before attempt `attempt` (1 is the first repeat), ms.
 *
 * Full jitter: anything from 0 to the exponential bound, so that callers who failed together do not come back
 * together (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). `random` is in [0, 1).
 */
export function backoffMs(attempt: number, options: BackoffOptions, random: number): number {
  const doublings = Math.min(Math.max(attempt - 1, 0), DOUBLINGS_MAX)
  return Math.floor(random * Math.min(options.maxMs, options.baseMs * 2 ** doublings))
}
