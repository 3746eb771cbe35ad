import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEnforcerApp } from '../../../services/enforcer/app.ts'
import { CheckObserver } from '../../../services/enforcer/check-observer.ts'
import { createClientLeaseCells } from '../../../services/enforcer/client-lease-metrics.ts'
import { ClientLeases } from '../../../services/enforcer/client-leases.ts'
import { DecisionLog } from '../../../services/enforcer/decision-log.ts'
import { createEnforcerMetrics, observeEnforcer } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import { buildPolicyIndex, type PolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer, LimitDecision, SoleCheck } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry, type Registry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'
import { askByPromise } from '../../support/sole-check.ts'

const admit: LimitDecision = {
  allowed: true,
  reason: null,
  remaining: 9,
  resetMs: 100,
  retryAfterMs: null,
}
const refuse: LimitDecision = { ...admit, allowed: false, reason: 'limit', retryAfterMs: 1_200 }
const valid = { domain: 'api', descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }] }

let app: FastifyInstance
let registry: Registry
let index: PolicyIndex | null
let answer: () => Promise<CheckAnswer>
let isRunning: boolean

beforeEach(() => {
  index = buildPolicyIndex({ version: 1, incarnation: 1, policies: [aRegionPolicy()] }, null)
  answer = async () => ({ atUs: 1, decisions: [admit] })
  isRunning = true
  registry = createRegistry({ region: 'us-east-1' }, false)
  const metrics = createEnforcerMetrics(registry)
  const inFlight = { count: 0, max: 2 }
  const guard = new StoreGuard({ clock: systemClock, onChange: () => {} })
  const routes = new RouteTable(metrics.cellsOf)
  observeEnforcer(registry, {
    policyVersion: () => 1,
    policyRevision: () => 1,
    policyAgeMs: () => null,
    isGuardOpen: () => guard.isOpen,
    loopStalls: () => 0,
    checksInFlight: () => inFlight.count,
    routesKept: () => routes.size,
    loops: () => [],
  })
  const context = {
    store: {
      check: () => answer(),
      ask: (check: SoleCheck) => askByPromise({ check: () => answer() }, check),
      giveBack: async () => {},
      ...NEVER_ASKED,
    },
    policies: { current: () => index, refresh: async () => {} },
    routes,
    guard,
    metrics,
  }
  const cells = createClientLeaseCells(registry)
  app = createEnforcerApp({
    region: 'us-east-1',
    clock: systemClock,
    headers: DRAFT_HEADERS,
    sender: { trustedHops: 0, ipv6Prefix: 64 },
    log: createLogger({ service: 'test', level: 'silent' }),
    registry,
    isRunning: () => isRunning,
    inFlight,
    observer: new CheckObserver(new DecisionLog(systemClock), undefined),
    context,
    clientLeases: new ClientLeases({ store: null, context, cells }),
  })
})
afterEach(() => app.close())

function post(payload: string | object, options: { url?: string; type?: string } = {}) {
  return app.inject({
    method: 'POST',
    url: options.url ?? '/v1/check',
    headers: { 'content-type': options.type ?? 'application/json' },
    payload,
  })
}

/** The value of one series as `/metrics` shows it. */
async function series(name: string, labels: string): Promise<number> {
  const { body } = await app.inject('/metrics')
  const line = body.split('\n').find((text) => text.startsWith(`${name}{`) && text.includes(labels))
  return Number(line?.split(' ').at(-1))
}

describe('POST /v1/check', () => {
  it('answers with JSON and the documented fields', async () => {
    const reply = await post(valid)
    expect(reply.statusCode).toBe(200)
    expect(reply.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(Object.keys(reply.json())).toEqual([
      'allowed',
      'region',
      'revision',
      'degraded',
      'decisions',
    ])
    expect(reply.json().decisions[0]).toMatchObject({ policy: 'api/tenants', remaining: 9 })
  })

  it('answers a denial with 200, or with 429 and the time to wait where asked to', async () => {
    answer = async () => ({ atUs: 1, decisions: [refuse] })
    const plain = await post(valid)
    expect(plain.statusCode).toBe(200)
    expect(plain.headers['retry-after']).toBeUndefined()
    const strict = await post(valid, { url: '/v1/check?deny=429' })
    expect(strict.statusCode).toBe(429)
    expect(strict.headers['retry-after']).toBe('2')
    expect(strict.headers['content-type']).toContain('application/problem+json')
    expect(strict.json()).toMatchObject({
      ...plain.json(),
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      status: 429,
      detail: 'tenants quota of 10 requests/second exceeded. Retry in 2 seconds.',
      'violated-policies': ['tenants'],
    })
    expect(strict.json()).toMatchObject({ allowed: false, decisions: [{ reason: 'limit' }] })
  })

  it('names no time to wait where waiting never helps', async () => {
    const never = { ...refuse, reason: 'cost_exceeds_capacity' as const, retryAfterMs: null }
    answer = async () => ({ atUs: 1, decisions: [never] })
    const reply = await post(valid, { url: '/v1/check?deny=429' })
    expect(reply.statusCode).toBe(429)
    expect(reply.headers['retry-after']).toBeUndefined()
  })

  it('calls a denial for want of the store 503 and never 429 (B094)', async () => {
    index = buildPolicyIndex(
      { version: 1, incarnation: 1, policies: [aRegionPolicy({ onStoreFailure: 'deny' })] },
      null,
    )
    answer = async () => {
      throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'away')
    }
    const reply = await post(valid, { url: '/v1/check?deny=429' })
    expect(reply.statusCode).toBe(503)
    expect(reply.headers['retry-after']).toBe('1')
    expect(reply.headers['ratelimit']).toBeUndefined()
    expect(reply.json()).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      degraded: true,
    })
  })

  it('says the same wait in body, Retry-After and every header field (B068)', async () => {
    answer = async () => ({
      atUs: 1,
      decisions: [{ ...refuse, remaining: 0, resetMs: 4_301, retryAfterMs: 4_301 }],
    })
    const reply = await post(valid, {
      url: '/v1/check?deny=429&headers=draft,ratelimit,x-ratelimit',
    })
    expect(reply.headers).toMatchObject({
      'retry-after': '5',
      'ratelimit-policy': '"tenants";q=10;w=1',
      ratelimit: '"tenants";r=0;t=5',
      'ratelimit-reset': '5',
      'x-ratelimit-reset': '5',
    })
    expect(reply.json().detail).toContain('Retry in 5 seconds.')
    expect(Math.ceil(reply.json().decisions[0].retryAfterMs / 1_000)).toBe(5)
  })

  it('sends the header fields that the request chooses, and those of the setting otherwise', async () => {
    const fields = async (query: string) =>
      Object.keys((await post(valid, { url: `/v1/check${query}` })).headers).filter((name) =>
        name.includes('ratelimit'),
      )
    expect(await fields('')).toEqual(['ratelimit-policy', 'ratelimit'])
    expect(await fields('?headers=none')).toEqual([])
    expect(await fields('?headers=x-ratelimit-epoch')).toEqual([
      'x-ratelimit-limit',
      'x-ratelimit-remaining',
      'x-ratelimit-reset',
    ])
  })

  it('says the id of a request that came with one, and no other', async () => {
    expect((await post(valid)).json()).not.toHaveProperty('requestId')
    expect((await post({ ...valid, requestId: 'a"b' })).json().requestId).toBe('a"b')
    for (const requestId of ['', 'x'.repeat(129), 7, null]) {
      const reply = await post({ ...valid, requestId })
      expect(reply.json().errors[0].field).toBe('requestId')
    }
  })

  it('takes JSON with a charset', async () => {
    expect((await post(valid, { type: 'application/json; charset=utf-8' })).statusCode).toBe(200)
  })

  it.each([
    ['malformed JSON', '{"domain":', {}, 400, 'body'],
    ['an empty body', '', {}, 400, 'body'],
    ['NaN for a cost', '{"domain":"api","descriptors":[],"cost":NaN}', {}, 400, 'body'],
    ['a list', '[]', {}, 400, 'body'],
    ['an unknown parameter', valid, { url: '/v1/check?denny=429' }, 400, 'query.denny'],
    ['another status for denials', valid, { url: '/v1/check?deny=403' }, 400, 'query.deny'],
    ['a status twice', valid, { url: '/v1/check?deny=429&deny=429' }, 400, 'query.deny'],
    ['unknown header fields', valid, { url: '/v1/check?headers=x' }, 400, 'query.headers'],
    ['a negative cost', { ...valid, cost: -1 }, {}, 400, 'cost'],
    ['an empty value', JSON.stringify(valid).replace('acme', ''), {}, 400, 'entries[0].value'],
  ] as const)(
    'refuses %s with a problem document',
    async (_what, payload, options, status, field) => {
      const reply = await post(payload, options)
      expect(reply.statusCode).toBe(status)
      expect(reply.headers['content-type']).toContain('application/problem+json')
      expect(reply.json()).toMatchObject({ status, code: 'QUOTA_INVALID_INPUT' })
      expect(reply.json().errors[0].field).toContain(field)
      expect(reply.json().errors[0].fix).not.toBe('')
    },
  )

  it.each([
    ['a body without end', `{"domain":"${'x'.repeat(66_000)}"}`, 'application/json', 413, 'body'],
    ['plain text', 'domain=api', 'text/plain', 415, 'content-type'],
    ['a form', 'domain=api', 'application/x-www-form-urlencoded', 415, 'content-type'],
  ])(
    'refuses %s by the part that is wrong, with a fix',
    async (_what, payload, type, status, field) => {
      const reply = await post(payload, { type })
      expect(reply.statusCode).toBe(status)
      expect(reply.headers['content-type']).toContain('application/problem+json')
      expect(reply.json().errors).toMatchObject([{ field, fix: expect.any(String) }])
    },
  )

  it('refuses other methods and paths with a problem document', async () => {
    for (const request of [
      { method: 'GET', url: '/v1/check' },
      { method: 'POST', url: '/v1/checks' },
    ] as const) {
      const reply = await app.inject(request)
      expect(reply.statusCode).toBe(404)
      expect(reply.headers['content-type']).toContain('application/problem+json')
    }
  })

  it('refuses more checks at a time than it is meant to hold, and takes them again after', async () => {
    let finish = (_answer: CheckAnswer): void => {}
    const held = new Promise<CheckAnswer>((resolve) => {
      finish = resolve
    })
    answer = () => held
    const waiting = [post(valid), post(valid)]
    await expect.poll(() => series('quotaplane_checks_in_flight', '')).toBe(2)
    const reply = await post(valid)
    expect(reply.statusCode).toBe(503)
    expect(reply.json().code).toBe('QUOTA_OVERLOADED')
    finish({ atUs: 1, decisions: [admit] })
    for (const check of waiting) expect((await check).statusCode).toBe(200)
    expect((await post(valid)).statusCode).toBe(200)
  })

  it('answers 503 while no policies are known, and is not ready', async () => {
    index = null
    const reply = await post(valid)
    expect(reply.statusCode).toBe(503)
    expect(reply.json().code).toBe('QUOTA_STORE_UNAVAILABLE')
    const ready = await app.inject('/readyz')
    expect(ready.statusCode).toBe(503)
    expect(ready.json().waitingFor).toEqual(['policies'])
    expect((await app.inject('/livez')).statusCode).toBe(200)
  })

  it('is ready with policies, and not once shutting down has begun', async () => {
    expect((await app.inject('/readyz')).statusCode).toBe(200)
    expect((await post(valid)).headers['connection']).not.toBe('close')
    isRunning = false
    expect((await app.inject('/readyz')).statusCode).toBe(503)
    const reply = await post(valid)
    expect(reply.statusCode).toBe(200)
    expect(reply.headers['connection']).toBe('close')
  })

  it('stays ready while the store is away, and says that it is', async () => {
    answer = async () => {
      throw new QuotaError('QUOTA_STORE_UNAVAILABLE', 'away')
    }
    const waitingFor = async (): Promise<unknown> => {
      await post(valid)
      const ready = await app.inject('/readyz')
      expect(ready.statusCode).toBe(200)
      return ready.json().waitingFor
    }
    await expect.poll(waitingFor, { interval: 1, timeout: 10_000 }).toEqual(['store'])
  })

  it('fails a check that met a bug of ours without saying what it was', async () => {
    answer = async () => {
      throw new Error('the secret of the bug')
    }
    const reply = await post(valid)
    expect(reply.statusCode).toBe(500)
    expect(reply.body).not.toContain('secret')
  })
})

describe('POST /v1/check/batch', () => {
  const batch = (checks: unknown) => post({ checks }, { url: '/v1/check/batch' })

  it('answers each check on its own, in order, whatever becomes of the others', async () => {
    const answers = [admit, refuse]
    answer = async () => ({ atUs: 1, decisions: [answers.shift() ?? admit] })
    const reply = await batch([valid, { ...valid, cost: -1 }, { ...valid, requestId: 'mine' }])
    expect(reply.statusCode).toBe(200)
    expect(reply.json().answers).toMatchObject([
      { status: 200, answer: { allowed: true } },
      { status: 400, problem: { code: 'QUOTA_INVALID_INPUT', errors: [{ field: 'cost' }] } },
      { status: 200, answer: { allowed: false, requestId: 'mine' } },
    ])
    expect(await series('quotaplane_invalid_checks_total', '')).toBe(1)
  })

  it('says in its place which check could not be decided', async () => {
    answer = () =>
      new Promise((resolve) => setImmediate(() => resolve({ atUs: 1, decisions: [admit] })))
    const reply = await batch([valid, valid, valid])
    expect(reply.json().answers.map((one: { status: number }) => one.status)).toEqual([
      200, 200, 503,
    ])
  })

  it.each([
    ['no checks', { checks: [] }, 'checks'],
    ['too many', { checks: Array.from({ length: 129 }, () => valid) }, 'checks'],
    ['a list', [valid], 'body'],
    ['an unknown field', { checks: [valid], check: 1 }, 'check'],
  ])('refuses %s', async (_what, payload, field) => {
    const reply = await post(payload, { url: '/v1/check/batch' })
    expect(reply.statusCode).toBe(400)
    expect(reply.json().errors).toMatchObject([{ field, fix: expect.any(String) }])
  })
})

describe('GET /openapi.json', () => {
  it('describes the routes that there are, and names only schemas that it has', async () => {
    const document = (await app.inject('/openapi.json')).json()
    expect(document.openapi).toBe('3.1.0')
    for (const [url, methods] of Object.entries<object>(document.paths)) {
      for (const method of Object.keys(methods)) {
        expect(app.hasRoute({ url, method: method.toUpperCase() as 'GET' }), url).toBe(true)
      }
    }
    const named = [...JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g)]
    for (const [, name] of named) expect(document.components.schemas).toHaveProperty(name ?? '')
  })
})

describe('GET /metrics', () => {
  it('counts each check as allowed, denied or error, and nothing else as a check', async () => {
    await post(valid)
    await post({ ...valid, domain: 'unknown' })
    answer = async () => ({ atUs: 1, decisions: [refuse] })
    await post(valid, { url: '/v1/check?deny=429' })
    answer = async () => {
      throw new QuotaError('QUOTA_OVERLOADED', 'full')
    }
    await post(valid)
    await post('{')
    await post('x', { type: 'text/plain' })
    expect(await series('quotaplane_checks_total', 'outcome="allowed"')).toBe(2)
    expect(await series('quotaplane_checks_total', 'outcome="denied"')).toBe(1)
    expect(await series('quotaplane_checks_total', 'outcome="error"')).toBe(1)
    expect(await series('quotaplane_invalid_checks_total', '')).toBe(2)
    expect(await series('quotaplane_unmatched_checks_total', '')).toBe(1)
    // One in sixteen, the first among them.
    expect(await series('quotaplane_check_duration_seconds_count', '')).toBe(1)
  })

  it('counts decisions by policy, outcome and reason, each once however often it is read', async () => {
    await post(valid)
    answer = async () => ({ atUs: 1, decisions: [refuse] })
    await post(valid)
    await app.inject('/metrics')
    const policy = 'policy="api/tenants",outcome='
    expect(await series('quotaplane_decisions_total', `${policy}"allowed",reason="none"`)).toBe(1)
    expect(await series('quotaplane_decisions_total', `${policy}"denied",reason="limit"`)).toBe(1)
  })
})
