import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEnforcerApp } from '../../../services/enforcer/app.ts'
import { CheckObserver } from '../../../services/enforcer/check-observer.ts'
import { DecisionLog } from '../../../services/enforcer/decision-log.ts'
import { createGrpcServer, type GrpcServer } from '../../../services/enforcer/grpc/server.ts'
import { createEnforcerMetrics, type EnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import { buildPolicyIndex, type PolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer, LimitDecision } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { aRegionLimit, aRegionPolicy } from '../../support/region-policy.ts'
import { presentClient, type RlsClient } from '../../support/rls-client.ts'
import { askByPromise } from '../../support/sole-check.ts'

const ADMIT: LimitDecision = {
  allowed: true,
  reason: null,
  remaining: 9,
  resetMs: 100,
  retryAfterMs: null,
}
const REFUSE: LimitDecision = { ...ADMIT, allowed: false, reason: 'limit', retryAfterMs: 900 }

let app: FastifyInstance
let url: string
let grpc: GrpcServer
let gateway: RlsClient
let metrics: EnforcerMetrics
let index: PolicyIndex | null
let answer: (targets: number) => CheckAnswer

const policies = [
  aRegionPolicy(),
  aRegionPolicy({
    id: 2,
    name: 'users',
    match: [{ key: 'user' }],
    limits: [aRegionLimit({ id: 2 })],
  }),
  aRegionPolicy({ id: 3, name: 'free', match: [{ key: 'free' }], unlimited: true, limits: [] }),
]

beforeEach(async () => {
  index = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
  answer = (targets) => ({ atUs: 1, decisions: Array.from({ length: targets }, () => ADMIT) })
  const registry = createRegistry({}, false)
  metrics = createEnforcerMetrics(registry)
  const check = async ({ targets }: { readonly targets: readonly unknown[] }) =>
    answer(targets.length)
  const runner = {
    clock: systemClock,
    headers: DRAFT_HEADERS,
    log: createLogger({ service: 'test', level: 'silent' }),
    inFlight: { count: 0, max: 8 },
    observer: new CheckObserver(new DecisionLog(systemClock), undefined),
    context: {
      store: {
        check,
        ask: (sole: Parameters<typeof askByPromise>[1]) => askByPromise({ check }, sole),
        giveBack: async () => {},
        ...NEVER_ASKED,
      },
      policies: { current: () => index, refresh: async () => {} },
      routes: new RouteTable(metrics.cellsOf),
      guard: new StoreGuard({ clock: systemClock, onChange: () => {} }),
      metrics,
    },
  }
  app = createEnforcerApp({
    ...runner,
    region: 'here',
    sender: { trustedHops: 0, ipv6Prefix: 64 },
    registry,
    isRunning: () => true,
  })
  url = await app.listen({ port: 0 })
  grpc = createGrpcServer({ ...runner, tls: null })
  gateway = presentClient(await grpc.listen('127.0.0.1', 0))
})
afterEach(async () => {
  gateway.close()
  await Promise.all([app.close(), grpc.drain(1_000)])
})

interface Check {
  readonly domain: string
  readonly keys: readonly string[]
}

async function post(path: string, body: unknown, type = 'application/json'): Promise<void> {
  const headers = { 'content-type': type }
  await (await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })).text()
}

function asked({ domain, keys }: Check) {
  const descriptors = keys.map((key) => ({ entries: [{ key, value: 'acme' }] }))
  return { domain, descriptors }
}

/** Each sends one check. */
const WAYS: Readonly<Record<string, (check: Check) => Promise<unknown>>> = {
  'POST /v1/check': (check) => post('/v1/check', asked(check)),
  'POST /v1/check?deny=429': (check) => post('/v1/check?deny=429', asked(check)),
  'POST /v1/check/batch': (check) => post('/v1/check/batch', { checks: [asked(check)] }),
  'POST /json': (check) => post('/json', asked(check)),
  async 'GET /v1/authorize'({ domain, keys }) {
    const descriptors = keys.map((key) => `descriptor=${key}:header:x-one`).join('&')
    const headers = { 'x-one': 'acme' }
    await fetch(`${url}/v1/authorize?domain=${domain}&${descriptors}`, { headers })
  },
  // An error is an answer too.
  ShouldRateLimit: (check) => gateway.call(asked(check)).catch(() => {}),
}

const TENANT: Check = { domain: 'api', keys: ['tenant'] }
const BOTH: Check = { domain: 'api', keys: ['tenant', 'user'] }

/** What may become of a check: how it is counted, and what is set up for it. */
const FATES: readonly (readonly [
  name: string,
  outcome: 'allowed' | 'denied' | 'error',
  check: Check,
  prepare: () => void,
])[] = [
  ['is admitted', 'allowed', TENANT, () => {}],
  ['is admitted by several limits', 'allowed', BOTH, () => {}],
  ['meets no policy', 'allowed', { domain: 'nowhere', keys: ['tenant'] }, () => {}],
  ['is unlimited', 'allowed', { domain: 'api', keys: ['free'] }, () => {}],
  ['is denied', 'denied', TENANT, () => refuseFrom(0)],
  ['is denied by the second limit', 'denied', BOTH, () => refuseFrom(1)],
  ['is allowed for want of the store', 'allowed', TENANT, () => fail('QUOTA_STORE_UNAVAILABLE')],
  ['comes when too many wait', 'error', TENANT, () => fail('QUOTA_OVERLOADED')],
  ['comes before the policies', 'error', TENANT, () => forgetPolicies()],
  ['meets a bug', 'error', TENANT, () => fail(null)],
]

function refuseFrom(first: number): void {
  let asked = 0
  answer = (targets) => ({
    atUs: 1,
    decisions: Array.from({ length: targets }, () => (asked++ < first ? ADMIT : REFUSE)),
  })
}

function fail(code: 'QUOTA_STORE_UNAVAILABLE' | 'QUOTA_OVERLOADED' | null): void {
  answer = () => {
    throw code === null ? new Error('a bug') : new QuotaError(code, 'scripted')
  }
}

function forgetPolicies(): void {
  index = null
}

function counts() {
  const { allowed, denied, error } = metrics.checks
  return { allowed: allowed.count, denied: denied.count, error: error.count }
}

describe.each(Object.keys(WAYS))('a check by %s', (way) => {
  it.each(FATES)('that %s is counted once, as %s', async (_name, outcome, check, prepare) => {
    prepare()
    await WAYS[way]?.(check)
    expect(counts()).toEqual({ allowed: 0, denied: 0, error: 0, [outcome]: 1 })
    expect(metrics.invalid.count).toBe(0)
  })

  it('that is not valid is counted as no check', async () => {
    await WAYS[way]?.({ domain: '', keys: ['tenant'] })
    expect(counts()).toEqual({ allowed: 0, denied: 0, error: 0 })
    expect(metrics.invalid.count).toBe(1)
  })
})

describe('a batch', () => {
  it('counts each of its checks once, whatever becomes of the others', async () => {
    let asked = 0
    answer = () => {
      asked += 1
      if (asked === 1) return { atUs: 1, decisions: [ADMIT] }
      if (asked === 2) return { atUs: 1, decisions: [REFUSE] }
      throw asked === 3 ? new QuotaError('QUOTA_OVERLOADED', 'scripted') : new Error('a bug')
    }
    const checks = ['a', 'b', 'c', 'd', 'e'].map((value) => ({
      domain: 'api',
      descriptors: [{ entries: [{ key: 'tenant', value }] }],
    }))
    await post('/v1/check/batch', { checks: [...checks, { domain: 'api' }] })
    expect(counts()).toEqual({ allowed: 1, denied: 1, error: 3 })
    expect(metrics.invalid.count).toBe(1)
  })
})
