import { QuotaError } from '../../shared/errors.ts'
import { decide, type Verdict } from './decide.ts'
import type { Ask } from './parts.ts'
import type { DecideContext } from './slot-group.ts'

/** Checks waiting for their answer, and the most there may be. */
export interface InFlight {
  count: number
  readonly max: number
}

/**
 * Bound on checks in flight: what four million checks a second come to under the usual deadline, and 32,000 under
 * one of 250 ms. Beyond it waiting only makes callers time out, and memory grows.
 */
export const CHECKS_IN_FLIGHT_MAX = 8_192

/** What every way in needs to decide a check. */
export interface CheckRunner {
  readonly context: DecideContext
  readonly inFlight: InFlight
}

/** Decides `ask` within the bound on checks in flight, and times it. Throws as `decide` does. */
export async function runCheck({ context, inFlight }: CheckRunner, ask: Ask): Promise<Verdict> {
  if (inFlight.count >= inFlight.max) {
    throw new QuotaError('QUOTA_OVERLOADED', 'too many checks are waiting for an answer')
  }
  const startedMs = performance.now()
  inFlight.count++
  try {
    return await decide(context, ask)
  } finally {
    inFlight.count--
    context.metrics.duration.observe((performance.now() - startedMs) / 1_000)
  }
}

/** Counts a request that got no decision: as an error when that is our doing, otherwise as not valid. */
export function countFailure({ context }: CheckRunner, status: number): void {
  if (status >= 500) context.metrics.checks.error.count++
  else context.metrics.invalid.count++
}
