import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type InputProblem, QuotaError } from '../errors.ts'
import { createFailureLog, type FailureLog } from './failure-log.ts'
import type { Logger } from './logger.ts'

/** An RFC 9457 problem document; `code` and `errors` are extensions. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: string
  readonly requestId: string
  readonly errors?: readonly InputProblem[]
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'The request is not valid',
  401: 'Authentication is required',
  403: 'This token may not do that',
  404: 'Not found',
  405: 'Method not allowed',
  406: 'Not acceptable',
  408: 'The request took too long to arrive',
  409: 'The request conflicts with the present state',
  412: 'The resource has changed since it was read',
  413: 'The request body is too large',
  415: 'The request body must be application/json',
  422: 'The request is not valid',
  428: 'A precondition is required',
  429: 'Too many requests',
  431: 'The header fields are too large',
  503: 'Temporarily unavailable',
}

/** What a problem with this status is called. */
export function titleOf(status: number): string {
  return TITLES[status] ?? 'Request failed'
}

export function sendProblem(
  reply: FastifyReply,
  problem: { status: number; code: string; detail: string; errors?: readonly InputProblem[] },
): FastifyReply {
  const body: Problem = {
    type: 'about:blank',
    title: titleOf(problem.status),
    status: problem.status,
    detail: problem.detail,
    code: problem.code,
    requestId: String(reply.request.id),
    ...(problem.errors && { errors: problem.errors }),
  }
  return reply.code(problem.status).type('application/problem+json').send(JSON.stringify(body))
}

/** For Fastify's option `frameworkErrors`: what it refuses before any route is found, such as a malformed URL. */
export function refuseByFramework(
  err: FastifyError,
  req: FastifyRequest,
  reply: FastifyReply,
): void {
  sendFrameworkRefusal(err, req, reply, err.statusCode ?? 400)
}

/** What Fastify refuses by itself, by its code: which part of the request is wrong, and how to mend it. */
const FRAMEWORK_REFUSALS: Readonly<Record<string, (req: FastifyRequest) => InputProblem>> = {
  FST_ERR_BAD_URL: () => ({
    field: 'path',
    message: 'is not a valid URL',
    fix: 'percent-encode each part of the path as UTF-8',
  }),
  FST_ERR_CTP_INVALID_JSON_BODY: () => ({
    field: 'body',
    message: 'must be valid JSON, without a key "__proto__" or "constructor"',
    fix: 'send one JSON object in UTF-8',
  }),
  FST_ERR_CTP_EMPTY_JSON_BODY: () => ({
    field: 'body',
    message: 'must not be empty',
    fix: 'send one JSON object in UTF-8',
  }),
  FST_ERR_CTP_BODY_TOO_LARGE: (req) => ({
    field: 'body',
    message: `must be at most ${req.routeOptions.bodyLimit} bytes`,
    fix: 'send less in one request',
  }),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => ({
    field: 'content-type',
    message: 'must be application/json',
    fix: 'send JSON with the header Content-Type: application/json',
  }),
}

function sendFrameworkRefusal(
  err: FastifyError,
  req: FastifyRequest,
  reply: FastifyReply,
  status: number,
): FastifyReply {
  const problem = FRAMEWORK_REFUSALS[err.code]?.(req)
  return sendProblem(reply, {
    status,
    code: 'QUOTA_INVALID_INPUT',
    detail: problem === undefined ? err.message : `${problem.field} ${problem.message}`,
    ...(problem && { errors: [problem] }),
  })
}

/**
 * Makes every failure of `app` a problem document. Must be called before routes are registered.
 *
 * What a caller can mend or wait for is said in full; of an unexpected failure only the request id, under which
 * the log has it. An outage that fails each request is logged now and then, not once a request.
 */
export function useProblems(app: FastifyInstance, log: Logger): void {
  app.setNotFoundHandler((req, reply) =>
    sendProblem(reply, {
      status: 404,
      code: 'QUOTA_NOT_FOUND',
      detail: `there is no ${req.method} ${req.url.split('?')[0]}`,
    }),
  )
  const outages = createFailureLog({
    log,
    fields: {},
    failedMessage: 'request failed',
    succeededMessage: 'requests succeed again',
  })
  app.setErrorHandler((err: FastifyError, req, reply) =>
    sendError(err, req, reply, { log, outages }),
  )
}

function sendError(
  err: FastifyError,
  req: FastifyRequest,
  reply: FastifyReply,
  { log, outages }: { log: Logger; outages: FailureLog },
): FastifyReply {
  if (err instanceof QuotaError) {
    if (err.status >= 500) outages.failed(err)
    return sendProblem(reply, {
      status: err.status,
      code: err.code,
      detail: err.message,
      ...(err.problems.length > 0 && { errors: err.problems }),
    })
  }
  const status = err.statusCode ?? 500
  if (status < 500) return sendFrameworkRefusal(err, req, reply, status)
  log.error({ err, reqId: req.id }, 'request failed unexpectedly')
  return sendProblem(reply, {
    status: 500,
    code: 'QUOTA_INTERNAL',
    detail: `an unexpected failure; the log has it under request ${req.id}`,
  })
}
