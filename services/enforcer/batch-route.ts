import type { FastifyInstance } from 'fastify'
import { isQuotaError } from '../../shared/errors.ts'
import { asciiJson } from '../../shared/protocol/ascii-json.ts'
import { encodeBatchItem, parseBatch } from '../../shared/protocol/check-batch.ts'
import { CHECK_BODY_BYTES_MAX, parseCheckRequest } from '../../shared/protocol/check-request.ts'
import { type AnswerContext, encodeVerdict } from './answer.ts'
import type { CallerOptions } from './caller-access.ts'
import type { CheckRouteOptions } from './check-route.ts'
import { nameAsk } from './named-ask.ts'
import { type CheckRunner, countFailure, runCheck } from './run-check.ts'

export const BATCH_PATH = '/v1/check/batch'

/** Room for the largest batch of usual checks. */
const BODY_BYTES_MAX = 4 * CHECK_BODY_BYTES_MAX

const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Adds `POST /v1/check/batch`: several checks at once, decided in their order for one counter, each apart from the
 * others, so that the answer of one never depends on another's. It is 200; each item has a status of its own.
 */
export function useBatches(app: FastifyInstance, options: CheckRouteOptions): void {
  const { region, clock, isRunning } = options
  const context = { regionJson: asciiJson(region), clock, isRunning }
  app.post(BATCH_PATH, { bodyLimit: BODY_BYTES_MAX }, async (req, reply) => {
    const checks = parseBatch(req.body)
    const { authorization } = req.headers
    const items = await all(
      options,
      checks.map((check) => answerItem(options, { body: check, authorization }, context)),
    )
    if (!isRunning()) void reply.header('connection', 'close')
    void reply.header('content-type', JSON_TYPE)
    return `{"answers":[${items.join(',')}]}`
  })
}

/**
 * The answers of a batch once each of its checks has come to an end. A bug fails the batch; every check that met one is
 * counted: the first by whoever answers for the failure, as that of a single check is.
 */
async function all(
  runner: CheckRunner,
  items: readonly Promise<string>[],
): Promise<readonly string[]> {
  const answers: string[] = []
  const bugs: unknown[] = []
  for (const item of await Promise.allSettled(items)) {
    if (item.status === 'fulfilled') answers.push(item.value)
    else if (bugs.push(item.reason) > 1) countFailure(runner, 500)
  }
  if (bugs.length > 0) throw bugs[0]
  return answers
}

/** What is wrong with one check, or keeps it from being decided, is said in its place; a bug fails the batch. */
async function answerItem(
  runner: CheckRunner & CallerOptions,
  { body, authorization }: { readonly body: unknown; readonly authorization: string | undefined },
  context: AnswerContext,
): Promise<string> {
  try {
    const request = parseCheckRequest(body)
    runner.callers?.require(authorization, request.domain)
    const named = nameAsk(request)
    const verdict = await runCheck(runner, named.ask)
    return encodeBatchItem(200, encodeVerdict(verdict, named, context.regionJson))
  } catch (err) {
    if (!isQuotaError(err)) throw err
    countFailure(runner, err.status)
    const { status, code, message: detail, problems: errors } = err
    return encodeBatchItem(status, JSON.stringify({ status, code, detail, errors }))
  }
}
