import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { QuotaError } from '../../shared/errors.ts'
import {
  encodeAnswer,
  encodeDecision,
  retryAfterSeconds,
} from '../../shared/protocol/check-answer.ts'
import { invalidCheck, parseCheckRequest } from '../../shared/protocol/check-request.ts'
import { decide, type Verdict } from './decide.ts'
import type { DecideContext } from './slot-group.ts'

export interface CheckRouteOptions {
  readonly region: string
  readonly context: DecideContext
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
const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Adds `POST /v1/check`. A denial is 200 with `allowed: false`, or with `?deny=429` the status 429 with the same
 * body and `Retry-After`, for gateways that go by the status.
 */
export function useChecks(app: FastifyInstance, options: CheckRouteOptions): void {
  const { context, inFlight, isRunning } = options
  const { metrics } = context
  const regionJson = JSON.stringify(options.region)

  app.addHook('onError', (req, _reply, err, done) => {
    if (req.routeOptions.url === PATH) {
      const status = err instanceof QuotaError ? err.status : (err.statusCode ?? 500)
      if (status >= 500) metrics.checks.error.count++
      else metrics.invalid.count++
    }
    done()
  })
  app.post(PATH, async (req, reply) => {
    const denialStatus = parseDenialStatus(req)
    const request = parseCheckRequest(req.body)
    if (inFlight.count >= inFlight.max) {
      throw new QuotaError('QUOTA_OVERLOADED', 'too many checks are waiting for an answer')
    }
    const startedMs = performance.now()
    inFlight.count++
    try {
      const verdict = await decide(context, request)
      if (!verdict.allowed) prepareDenial(reply, verdict, denialStatus)
      // Lets callers with a lasting connection move elsewhere before this one ends.
      if (!isRunning()) void reply.header('connection', 'close')
      void reply.header('content-type', JSON_TYPE)
      return answer(verdict, regionJson)
    } finally {
      inFlight.count--
      metrics.duration.observe((performance.now() - startedMs) / 1_000)
    }
  })
}

function answer(verdict: Verdict, regionJson: string): string {
  let decisions = ''
  for (const { limit, decision, position } of verdict.decided) {
    if (decisions !== '') decisions += ','
    decisions += encodeDecision(limit.template, decision, position)
  }
  const { allowed, revision, degraded, unmatched } = verdict
  return encodeAnswer({ allowed, regionJson, revision, degraded, decisions, unmatched })
}

function prepareDenial(reply: FastifyReply, verdict: Verdict, status: 200 | 429): void {
  if (status === 200) return
  void reply.code(429)
  const seconds = retryAfterSeconds(verdict.decided.map(({ decision }) => decision))
  if (seconds !== null) void reply.header('retry-after', seconds)
}

/** `?deny=429`, or nothing. Anything else is refused: a misspelt parameter would let denied requests pass. */
function parseDenialStatus(req: FastifyRequest): 200 | 429 {
  const query: unknown = req.query
  if (typeof query !== 'object' || query === null) return 200
  let status: 200 | 429 = 200
  for (const [name, value] of Object.entries(query)) {
    if (name !== 'deny') {
      throw invalidCheck([
        { field: `query.${name}`, message: 'is not a known parameter', fix: 'known here: deny' },
      ])
    }
    if (value !== '429') {
      throw invalidCheck([
        { field: 'query.deny', message: 'must be 429', fix: 'send ?deny=429 or leave it out' },
      ])
    }
    status = 429
  }
  return status
}
