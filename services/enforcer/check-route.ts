import type { FastifyInstance } from 'fastify'
import { QuotaError } from '../../shared/errors.ts'
import { parseCheckRequest } from '../../shared/protocol/check-request.ts'
import type { HeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import { answerOverHttp } from './answer.ts'
import { parseCheckQuery, rememberQueries } from './check-query.ts'
import { decide } from './decide.ts'
import type { DecideContext } from './slot-group.ts'

export interface CheckRouteOptions {
  readonly region: string
  readonly clock: Clock
  readonly context: DecideContext
  /** Which rate limit header fields an answer has when the request does not choose. */
  readonly headers: HeaderChoice
  /** False once shutting down has begun. */
  readonly isRunning: () => boolean
  readonly inFlight: InFlight
}

/** Checks waiting for their answer, and the most there may be. */
export interface InFlight {
  count: number
  readonly max: number
}

/**
 * Bound on checks in flight. With the usual deadline it is reached at about 32,000 checks a second without any
 * answer; beyond it waiting only makes callers time out, and memory grows.
 */
export const CHECKS_IN_FLIGHT_MAX = 8_192

const PATH = '/v1/check'

/**
 * Adds `POST /v1/check`. A denial is 200 with `allowed: false`, or with `?deny=429` a problem document under that
 * status with `Retry-After`, for gateways that go by the status; `?headers=` chooses the rate limit header fields.
 */
export function useChecks(app: FastifyInstance, options: CheckRouteOptions): void {
  const { context, inFlight, isRunning, clock } = options
  const { metrics } = context
  const answering = { regionJson: JSON.stringify(options.region), clock }
  const formOf = rememberQueries((query) => parseCheckQuery(query, options.headers))

  app.addHook('onError', (req, _reply, err, done) => {
    if (req.routeOptions.url === PATH) {
      const status = err instanceof QuotaError ? err.status : (err.statusCode ?? 500)
      if (status >= 500) metrics.checks.error.count++
      else metrics.invalid.count++
    }
    done()
  })
  app.post(PATH, async (req, reply) => {
    const form = formOf(req.url)
    const request = parseCheckRequest(req.body)
    if (inFlight.count >= inFlight.max) {
      throw new QuotaError('QUOTA_OVERLOADED', 'too many checks are waiting for an answer')
    }
    const startedMs = performance.now()
    inFlight.count++
    try {
      const verdict = await decide(context, request)
      // Lets callers with a lasting connection move elsewhere before this one ends.
      if (!isRunning()) void reply.header('connection', 'close')
      return answerOverHttp(reply, verdict, form, answering)
    } finally {
      inFlight.count--
      metrics.duration.observe((performance.now() - startedMs) / 1_000)
    }
  })
}
