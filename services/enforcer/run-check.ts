import { QuotaError } from '../../shared/errors.ts'
import type { CheckObserver } from './check-observer.ts'
import type { Verdict } from './conclude.ts'
import { decideThen } from './decide.ts'
import type { Ask } from './parts.ts'
import type { DecideContext } from './slot-group.ts'
import type { VerdictWaiter } from './sole-check.ts'

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
  readonly observer: CheckObserver
}

/** Decides `ask` within the bound on checks in flight, and times some. Rejects as `decide` does. */
export function runCheck(runner: CheckRunner, ask: Ask): Promise<Verdict> {
  return new Promise((resolve, reject) => runCheckThen(runner, ask, { resolve, reject }))
}

/** As `runCheck`, without a promise where none is needed; never throws. */
export function runCheckThen(
  { context, inFlight, observer }: CheckRunner,
  ask: Ask,
  waiter: VerdictWaiter,
): void {
  if (inFlight.count >= inFlight.max) {
    waiter.reject(new QuotaError('QUOTA_OVERLOADED', 'too many checks are waiting for an answer'))
    return
  }
  const { timer } = context.metrics
  inFlight.count++
  const beganMs = timer.begin()
  const end = (): void => {
    inFlight.count--
    if (beganMs !== null) timer.end(beganMs)
  }
  const told = observer.looking === 0 ? waiter : observer.observe(ask, waiter)
  decideThen(context, ask, {
    resolve(verdict) {
      end()
      told.resolve(verdict)
    },
    reject(err) {
      end()
      told.reject(err)
    },
  })
}

/** Counts a request that got no decision: as an error when that is our doing, otherwise as not valid. */
export function countFailure({ context }: CheckRunner, status: number): void {
  if (status >= 500) context.metrics.checks.error.count++
  else context.metrics.invalid.count++
}
