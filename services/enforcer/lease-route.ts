import type { FastifyInstance } from 'fastify'
import { asciiJson } from '../../shared/protocol/ascii-json.ts'
import { encodeDecision } from '../../shared/protocol/check-answer.ts'
import {
  LEASE_PATH,
  LEASE_RETURN_PATH,
  parseLeaseRequest,
  parseLeaseReturn,
} from '../../shared/protocol/lease-messages.ts'
import { writeRateLimitHeaders } from '../../shared/protocol/rate-limit-headers.ts'
import { requireCaller } from './caller-access.ts'
import type { CheckRouteOptions } from './check-route.ts'
import type { ClientGrant, ClientLeases } from './client-leases.ts'
import { asNominal } from './slot-group.ts'

export interface LeaseRouteOptions extends CheckRouteOptions {
  readonly clientLeases: ClientLeases
}

type Granted = Extract<ClientGrant, { kind: 'granted' }>

/**
 * Adds `POST /v1/lease` and `POST /v1/lease/return`. A lease that there is not is 200 with `tokens: 0` and a reason, for it is
 * no failure of a client that asks for its checks one by one then. A block brings the header fields that a check's
 * answer has.
 */
export function useLeases(app: FastifyInstance, options: LeaseRouteOptions): void {
  const { clientLeases, isRunning } = options
  const regionJson = asciiJson(options.region)
  app.post(LEASE_PATH, async (req, reply) => {
    const request = parseLeaseRequest(req.body)
    requireCaller(options, req, reply, request.domain)
    const granted = await clientLeases.grant(request)
    if (!isRunning()) void reply.header('connection', 'close')
    void reply.header('content-type', 'application/json; charset=utf-8')
    const head = `{"region":${regionJson},"revision":${granted.revision},"tokens":`
    if (granted.kind === 'refused') return `${head}0,"reason":"${granted.reason}"}`
    const decision = decisionOf(granted)
    const { id, limit, grant } = granted
    const source = {
      words: [limit.words],
      binding: { words: limit.words, decision },
      wallMs: options.clock.wallMs(),
    }
    writeRateLimitHeaders(options.headers, source, (name, value) => void reply.header(name, value))
    const said = encodeDecision(limit.template, decision, 0)
    return `${head}${grant.tokens},"id":"${id}","lifeMs":${grant.lifeMs},"decision":${said}}`
  })
  app.post(LEASE_RETURN_PATH, async (req, reply) => {
    const request = parseLeaseReturn(req.body)
    requireCaller(options, req, reply, request.domain)
    return { outcome: await clientLeases.giveBack(request) }
  })
}

/** The block is the client's to spend, so it counts as remaining still. */
function decisionOf({ limit, grant }: Granted) {
  const { tokens, remaining, resetMs } = grant
  const decision = {
    allowed: true,
    reason: null,
    remaining: remaining + tokens,
    resetMs,
    retryAfterMs: null,
  }
  return asNominal(decision, limit.limit.nominal)
}
