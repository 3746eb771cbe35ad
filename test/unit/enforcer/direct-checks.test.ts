import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEnforcerApp } from '../../../services/enforcer/app.ts'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import { buildPolicyIndex, type PolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'
import { askByPromise } from '../../support/sole-check.ts'

const ADMIT = { allowed: true, reason: null, remaining: 9, resetMs: 100, retryAfterMs: null }
const REFUSE = { ...ADMIT, allowed: false, reason: 'limit', retryAfterMs: 1_200 } as const
const VALID = { domain: 'api', descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }] }

let app: FastifyInstance
let url: string
let index: PolicyIndex | null
let answer: () => Promise<CheckAnswer>

beforeEach(async () => {
  index = buildPolicyIndex({ version: 1, incarnation: 1, policies: [aRegionPolicy()] }, null)
  answer = async () => ({ atUs: 1, decisions: [ADMIT] })
  const registry = createRegistry({ region: 'us-east-1' }, false)
  const metrics = createEnforcerMetrics(registry)
  app = createEnforcerApp({
    region: 'us-east-1',
    clock: systemClock,
    headers: DRAFT_HEADERS,
    sender: { trustedHops: 0, ipv6Prefix: 64 },
    log: createLogger({ service: 'test', level: 'silent' }),
    registry,
    isRunning: () => true,
    inFlight: { count: 0, max: 2 },
    context: {
      store: {
        check: () => answer(),
        ask: (check) => askByPromise({ check: () => answer() }, check),
        giveBack: async () => {},
        ...NEVER_ASKED,
      },
      policies: { current: () => index, refresh: async () => {} },
      routes: new RouteTable(metrics.cellsOf),
      guard: new StoreGuard({ clock: systemClock, onChange: () => {} }),
      metrics,
    },
  })
  url = await app.listen({ port: 0 })
})
afterEach(() => app.close())

const FIELDS = ['content-type', 'content-length', 'ratelimit', 'ratelimit-policy'] as const

/** Over the socket, which plain checks do not leave for the framework. */
async function overSocket(body: string) {
  const headers = { 'content-type': 'application/json' }
  const reply = await fetch(`${url}/v1/check`, { method: 'POST', headers, body })
  const fields = FIELDS.map((name) => reply.headers.get(name))
  return [reply.status, withoutIds(await reply.text()), fields]
}

/** Past the server, so by the framework alone. */
async function byFramework(body: string) {
  const headers = { 'content-type': 'application/json' }
  const reply = await app.inject({ method: 'POST', url: '/v1/check', headers, payload: body })
  const fields = FIELDS.map((name) => reply.headers[name]?.toString() ?? null)
  return [reply.statusCode, withoutIds(reply.body), fields]
}

/** Ids of requests are numbered by the framework. */
function withoutIds(text: string): string {
  return text.replace(/"requestId":"req-[^"]*"/, '"requestId":"…"')
}

describe('POST /v1/check on the server itself', () => {
  it.each([
    ['a check', JSON.stringify(VALID)],
    ['a check with an id', JSON.stringify({ ...VALID, requestId: 'mine' })],
    ['a wrong cost', JSON.stringify({ ...VALID, cost: -1 })],
    ['no JSON', '{"domain":'],
    ['another kind of JSON', '[]'],
    ['what no policy governs', JSON.stringify({ ...VALID, domain: 'é'.repeat(20) })],
  ])('answers %s as the framework does', async (_name, body) => {
    expect(await overSocket(body)).toEqual(await byFramework(body))
  })

  it('answers a denial as the framework does', async () => {
    answer = async () => ({ atUs: 1, decisions: [REFUSE] })
    const body = JSON.stringify(VALID)
    expect(await overSocket(body)).toEqual(await byFramework(body))
  })

  it('answers what the store cannot decide as the framework does, also before any policies', async () => {
    const body = JSON.stringify(VALID)
    answer = () => Promise.reject(new QuotaError('QUOTA_STORE_UNAVAILABLE', 'gone'))
    expect(await overSocket(body)).toEqual(await byFramework(body))
    index = null
    expect((await overSocket(body))[0]).toBe(503)
    expect(await overSocket(body)).toEqual(await byFramework(body))
  })
})
