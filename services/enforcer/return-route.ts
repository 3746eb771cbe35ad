import type { FastifyInstance } from 'fastify'
import { parseRefund, parseRelease } from '../../shared/protocol/check-return.ts'
import { requireCaller } from './caller-access.ts'
import type { CheckRouteOptions } from './check-route.ts'
import { refundCheck, releaseCheck } from './returns.ts'

const REFUND_PATH = '/v1/refund'
const RELEASE_PATH = '/v1/release'

/**
 * Adds `POST /v1/refund` and `POST /v1/release`, which take back what a check with an id took. Both may be repeated
 * until they are answered.
 */
export function useReturns(app: FastifyInstance, options: CheckRouteOptions): void {
  const { context } = options
  const { metrics } = context
  app.post(REFUND_PATH, async (req, reply) => {
    const request = parseRefund(req.body)
    requireCaller(options, req, reply, request.domain)
    const { outcome, limits } = await refundCheck(context, request)
    if (outcome !== 'unmatched') metrics.refunds[outcome].count++
    return { requestId: request.requestId, outcome, limits }
  })
  app.post(RELEASE_PATH, async (req, reply) => {
    const request = parseRelease(req.body)
    requireCaller(options, req, reply, request.domain)
    const limits = await releaseCheck(context, request)
    metrics.releases.count++
    return { requestId: request.requestId, limits }
  })
}
