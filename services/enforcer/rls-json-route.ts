import type { FastifyInstance } from 'fastify'
import { decodeRlsRequest, encodeRlsResponse } from '../../shared/protocol/rls-json.ts'
import { requireCaller } from './caller-access.ts'
import { parseJson } from './json-body.ts'
import { type RlsOptions, shouldRateLimit } from './rls.ts'

export interface RlsJsonOptions extends RlsOptions {
  readonly isRunning: () => boolean
}

export const RLS_JSON_PATH = '/json'

const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Adds what envoyproxy/ratelimit answers over HTTP: `POST /json` (its messages as proto3 JSON, 200 or 429) and
 * `GET /healthcheck`. Any content type is read as JSON, for its callers send none.
 */
export function useRlsJson(app: FastifyInstance, options: RlsJsonOptions): void {
  const { context, isRunning } = options
  app.get('/healthcheck', (_req, reply) => {
    const isServing = isRunning() && context.policies.current() !== null
    return reply
      .code(isServing ? 200 : 500)
      .type('text/plain; charset=utf-8')
      .send(isServing ? 'OK' : 'not serving')
  })
  void app.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', { parseAs: 'string' }, parseJson)
    scope.post(RLS_JSON_PATH, async (req, reply) => {
      const request = decodeRlsRequest(req.body)
      requireCaller(options, req, reply, request.domain)
      const response = await shouldRateLimit(options, request)
      if (!isRunning()) void reply.header('connection', 'close')
      for (const { key, value } of response.response_headers_to_add) void reply.header(key, value)
      void reply.code(response.overall_code === 'OK' ? 200 : 429).header('content-type', JSON_TYPE)
      return encodeRlsResponse({ ...response, response_headers_to_add: [] })
    })
    done()
  })
}
