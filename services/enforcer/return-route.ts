import type { FastifyInstance } from 'fastify'
import { parseRefund, parseRelease } from '../../shared/protocol/check-return.ts'
import type { CheckRouteOptions } from './check-route.ts'
import { refundCheck, releaseCheck } from './returns.ts'

const REFUND_PATH = '/v1/refund'
const RELEASE_PATH = '/v1/release'

/**
 * Adds `POST /v1/refund` and `POST /v1/release`, which take back what a check with an id took. Both may be repeated
 * until they are answered.
 */
export function useReturns(app: FastifyInstance, { context }: CheckRouteOptions): void {
  const { metrics } = context
  app.post(REFUND_PATH, async (req) => {
    const request = parseRefund(req.body)
    const { outcome, limits } = await refundCheck(context, request)
    if (outcome !== 'unmatched') metrics.refunds[outcome].count++
    return { requestId: request.requestId, outcome, limits }
  })
  app.post(RELEASE_PATH, async (req) => {
    const request = parseRelease(req.body)
    const limits = await releaseCheck(context, request)
    metrics.releases.count++
    return { requestId: request.requestId, limits }
  })
}
