import type { FastifyInstance } from 'fastify'
import { QuotaError } from '../../shared/errors.ts'
import { asciiJson } from '../../shared/protocol/ascii-json.ts'
import { parseCheckRequest } from '../../shared/protocol/check-request.ts'
import type { HeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import { answerOverHttp } from './answer.ts'
import { type CallerOptions, requireCaller } from './caller-access.ts'
import { parseCheckQuery, rememberQueries } from './check-query.ts'
import { nameAsk } from './named-ask.ts'
import { type CheckRunner, countFailure, runCheck } from './run-check.ts'

export interface CheckRouteOptions extends CheckRunner, CallerOptions {
  readonly region: string
  readonly clock: Clock
  /** Which rate limit header fields an answer has when the request does not choose. */
  readonly headers: HeaderChoice
  /** False once shutting down has begun. */
  readonly isRunning: () => boolean
}

export const CHECK_PATH = '/v1/check'

/**
 * Adds `POST /v1/check`. A denial is 200 with `allowed: false`, or with `?deny=429` a problem document under that
 * status with `Retry-After`, for gateways that go by the status; `?headers=` chooses the rate limit header fields.
 */
export function useChecks(app: FastifyInstance, options: CheckRouteOptions): void {
  const { region, clock, isRunning } = options
  const answering = { regionJson: asciiJson(region), clock, isRunning }
  const formOf = rememberQueries((query) => parseCheckQuery(query, options.headers))
  app.post(CHECK_PATH, async (req, reply) => {
    const form = formOf(req.url)
    const request = parseCheckRequest(req.body)
    requireCaller(options, req, reply, request.domain)
    const named = nameAsk(request)
    const verdict = await runCheck(options, named.ask)
    return answerOverHttp(reply, { verdict, named }, form, answering)
  })
}

/** Counts the requests to the paths of `counted` that get no decision. Before these routes are added. */
export function watchChecks(
  app: FastifyInstance,
  options: CheckRouteOptions,
  counted: ReadonlySet<string>,
): void {
  app.addHook('onError', (req, _reply, err, done) => {
    if (counted.has(req.routeOptions.url ?? '')) {
      countFailure(options, err instanceof QuotaError ? err.status : (err.statusCode ?? 500))
    }
    done()
  })
}
