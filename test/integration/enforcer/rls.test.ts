import { status } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { GrpcListener } from '../../../services/enforcer/enforcer.ts'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import type { RlsResponse, RlsStatus } from '../../../shared/protocol/rls-messages.ts'
import {
  type HealthClient,
  healthClient,
  officialClient,
  presentClient,
  type RlsCall,
  type RlsClient,
} from '../../support/rls-client.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const HOUR = { algorithm: 'fixed_window', windowMs: 3_600_000 } as const
const UINT32_MAX = 4_294_967_295

let region: TestRegion
let enforcer: TestEnforcer
let listener: GrpcListener
/** Envoy's own files and ours must mean the same. */
let official: RlsClient
let present: RlsClient
let health: HealthClient
let domains = 0

const written: RegionPolicySpec[] = []

/** A domain of its own with these policies, beside those of other tests. */
async function aDomain(...policies: readonly RegionPolicySpec[]): Promise<string> {
  const domain = `domain-${++domains}`
  written.push(...policies.map((policy) => ({ ...policy, domain })))
  const version = await region.write(written)
  await expect.poll(() => enforcer.policies.current()?.version).toBe(version)
  return domain
}

const descriptor = (...entries: readonly [key: string, value: string][]) => ({
  entries: entries.map(([key, value]) => ({ key, value })),
})
const tenant = (value: string) => descriptor(['tenant', value])

function only(response: RlsResponse): RlsStatus {
  const [first] = response.statuses
  if (first === undefined) throw new Error('a status')
  return first
}

/** What `POST /json` answers to the same request. */
async function json(body: unknown) {
  const reply = await enforcer.app.inject({
    method: 'POST',
    url: '/json',
    payload: JSON.stringify(body),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  return { status: reply.statusCode, body: reply.json(), headers: reply.headers }
}

beforeAll(async () => {
  region = await startRegion([])
  enforcer = await region.startEnforcer()
  listener = await enforcer.listenGrpc('127.0.0.1', 0)
  official = officialClient(listener.port)
  present = presentClient(listener.port)
  health = healthClient(listener.port)
})
afterAll(async () => {
  for (const client of [official, present, health]) client.close()
  await listener.drain(1_000)
  await region.stop()
})

describe('ShouldRateLimit', () => {
  it('answers a client made of the official files, every field filled', async () => {
    const domain = await aDomain(aPolicy({ name: 'hourly', limits: [{ ...HOUR, capacity: 2 }] }))
    const request = { domain, descriptors: [tenant('acme')] }
    const codes = []
    for (let turn = 0; turn < 3; turn++) codes.push((await official.call(request)).overall_code)
    expect(codes).toEqual(['OK', 'OK', 'OVER_LIMIT'])
    const response = await official.call(request)
    expect(response).toMatchObject({
      overall_code: 'OVER_LIMIT',
      statuses: [{ code: 'OVER_LIMIT' }],
    })
    const { current_limit, limit_remaining, duration_until_reset } = only(response)
    expect(current_limit).toEqual({ requests_per_unit: 2, unit: 'HOUR', name: 'hourly' })
    expect(limit_remaining).toBe(0)
    expect(duration_until_reset?.seconds).toBeGreaterThan(0)
    expect(duration_until_reset?.seconds).toBeLessThanOrEqual(3_600)
  })

  it('gives one status for each descriptor in order, the unmatched without a limit (B161)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ ...HOUR, capacity: 5 }] }),
      aPolicy({ match: [{ key: 'user' }], limits: [{ ...HOUR, capacity: 1 }] }),
    )
    const descriptors = [tenant('t'), descriptor(['path', '/']), descriptor(['user', 'u'])]
    await official.call({ domain, descriptors })
    const response = await official.call({ domain, descriptors })
    expect(response.overall_code).toBe('OVER_LIMIT')
    expect(response.statuses.map(({ code }) => code)).toEqual(['OK', 'OK', 'OVER_LIMIT'])
    expect(response.statuses[1]).toMatchObject({ current_limit: null, duration_until_reset: null })
  })

  it('is OK in a domain that nobody has limits in, and counts it (B161)', async () => {
    await aDomain(aPolicy())
    const before = await enforcer.series('quotaplane_unmatched_checks_total')
    const response = await official.call({ domain: 'nowhere', descriptors: [tenant('t')] })
    expect(response).toMatchObject({ overall_code: 'OK', statuses: [{ code: 'OK' }] })
    expect(await enforcer.series('quotaplane_unmatched_checks_total')).toBe(before + 1)
  })

  it.each<[string, RlsCall]>([
    ['an empty domain', { domain: '', descriptors: [tenant('t')] }],
    ['no descriptors', { domain: 'api', descriptors: [] }],
    ['an empty value', { domain: 'api', descriptors: [tenant('')] }],
    ['a descriptor without entries', { domain: 'api', descriptors: [descriptor()] }],
    [
      'an override without a unit',
      {
        domain: 'api',
        descriptors: [{ ...tenant('t'), limit: { requests_per_unit: 1, unit: 'UNKNOWN' } }],
      },
    ],
  ])('refuses %s with an error and not with a response (B161)', async (_what, request) => {
    const before = await enforcer.series('quotaplane_invalid_checks_total')
    await expect(official.call(request)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT })
    expect(await enforcer.series('quotaplane_invalid_checks_total')).toBe(before + 1)
    expect((await json(request)).status).toBe(400)
  })

  it('counts one for an addend that is unset or 0, and reads by a descriptor of 0 (B038)', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ ...HOUR, capacity: 7 }] }))
    const base = { domain, descriptors: [tenant('t')] }
    const peek = { domain, descriptors: [{ ...tenant('t'), hits_addend: { value: 0 } }] }
    const left = async (request: RlsCall) => only(await present.call(request)).limit_remaining
    expect(await left(base)).toBe(6)
    expect(await left({ ...base, hits_addend: 0 })).toBe(5)
    for (let turn = 0; turn < 3; turn++) expect(await left(peek)).toBe(5)
    expect(await left({ ...base, hits_addend: 5 })).toBe(0)
    for (let turn = 0; turn < 2; turn++) {
      expect(only(await present.call(peek))).toMatchObject({
        code: 'OVER_LIMIT',
        limit_remaining: 0,
      })
    }
  })

  it("lets a descriptor's own addend stand before the request's", async () => {
    const domain = await aDomain(aPolicy({ limits: [{ ...HOUR, capacity: 10 }] }))
    const response = await present.call({
      domain,
      hits_addend: 2,
      descriptors: [tenant('a'), { ...tenant('b'), hits_addend: { value: 5 } }],
    })
    expect(response.statuses.map((one) => one.limit_remaining)).toEqual([8, 5])
  })

  it('never wraps, whatever the addend (B040)', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ ...HOUR, capacity: 10 }] }))
    const own = (value: number | string) => ({
      domain,
      descriptors: [{ ...tenant('t'), hits_addend: { value } }],
    })
    const requests = [
      { domain, descriptors: [tenant('t')], hits_addend: UINT32_MAX },
      own(2 ** 63),
      own('9223372036854775808'),
      own('18446744073709551615'),
    ]
    for (const request of [...requests, ...requests]) {
      expect(only(await present.call(request))).toMatchObject({ code: 'OVER_LIMIT' })
    }
    expect(only(await present.call(own(0))).limit_remaining).toBe(10)
  })

  it('counts a descriptor twice that comes twice, and takes nothing when one is over (B041)', async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ ...HOUR, capacity: 3 }] }),
      aPolicy({ match: [{ key: 'user' }], limits: [{ ...HOUR, capacity: 9 }] }),
    )
    const twice = {
      domain,
      descriptors: [descriptor(['user', 'u']), tenant('t'), tenant('t')],
    }
    expect((await official.call(twice)).statuses.map((one) => one.limit_remaining)).toEqual([
      8, 2, 1,
    ])
    const denied = await official.call(twice)
    expect(denied.statuses.map(({ code }) => code)).toEqual(['OK', 'OK', 'OVER_LIMIT'])
    const read = await present.call({
      domain,
      descriptors: [descriptor(['user', 'u']), tenant('t')].map((one) => ({
        ...one,
        hits_addend: { value: 0 },
      })),
    })
    expect(read.statuses.map((one) => one.limit_remaining)).toEqual([8, 1])
  })

  it('shows the limit that leaves least, or the one that denied, of several on one descriptor (B065)', async () => {
    const domain = await aDomain(
      aPolicy({
        name: 'both',
        limits: [
          { ...HOUR, name: 'yearly', capacity: 100_000 },
          { ...HOUR, name: 'minutely', capacity: 2, windowMs: 60_000 },
        ],
      }),
    )
    const request = { domain, descriptors: [tenant('t')] }
    expect(only(await official.call(request)).current_limit?.name).toBe('both/minutely')
    await official.call(request)
    const denied = only(await official.call(request))
    expect(denied).toMatchObject({ code: 'OVER_LIMIT', current_limit: { name: 'both/minutely' } })
    expect(denied.duration_until_reset?.seconds).toBeLessThanOrEqual(60)
  })

  it('tells the header fields to add, and the same wait in each (B068)', async () => {
    const domain = await aDomain(aPolicy({ name: 'one', limits: [{ ...HOUR, capacity: 1 }] }))
    const request = { domain, descriptors: [tenant('t')] }
    const added = (response: RlsResponse) =>
      Object.fromEntries(response.response_headers_to_add.map(({ key, value }) => [key, value]))
    expect(added(await official.call(request))).toMatchObject({
      'ratelimit-policy': '"one";q=1;w=3600',
      ratelimit: expect.stringMatching(/^"one";r=0;t=\d+$/),
    })
    const response = await official.call(request)
    const headers = added(response)
    const seconds = only(response).duration_until_reset?.seconds
    expect(headers['ratelimit']).toBe(`"one";r=0;t=${headers['retry-after']}`)
    expect(Number(headers['retry-after'])).toBe(seconds)
  })
})

describe('a limit that a descriptor brings along', () => {
  const limited = (value: string, requests: number, unit: string) => ({
    ...tenant(value),
    limit: { requests_per_unit: requests, unit },
  })

  it('holds in place of the policy, and spends nothing of it', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ ...HOUR, capacity: 100 }] }))
    const request = { domain, descriptors: [limited('t', 2, 'DAY')] }
    const codes = []
    for (let turn = 0; turn < 3; turn++) codes.push((await official.call(request)).overall_code)
    expect(codes).toEqual(['OK', 'OK', 'OVER_LIMIT'])
    const status = only(await official.call(request))
    expect(status.current_limit).toEqual({ requests_per_unit: 2, unit: 'DAY', name: 'override' })
    const own = only(await official.call({ domain, descriptors: [tenant('t')] }))
    expect(own.limit_remaining).toBe(99)
  })

  it('keeps what was spent when its number changes, and counts each unit and domain apart', async () => {
    const [domain, other] = [await aDomain(aPolicy()), await aDomain(aPolicy())]
    const left = async (of: string, requests: number, unit = 'DAY') =>
      only(await official.call({ domain: of, descriptors: [limited('t', requests, unit)] }))
        .limit_remaining
    expect(await left(domain, 10)).toBe(9)
    expect(await left(domain, 20)).toBe(18)
    expect(await left(domain, 20, 'HOUR')).toBe(19)
    expect(await left(other, 20)).toBe(19)
  })

  it("admits this region's part of it and no more", async () => {
    const domain = await aDomain(
      aPolicy({ limits: [{ ...HOUR, home: POOL_UNITS * 0.6 }] }),
      aPolicy({ match: [{ key: 'user' }], limits: [{ ...HOUR, home: POOL_UNITS * 0.3 }] }),
    )
    const request = { domain, hits_addend: 3, descriptors: [limited('t', 10, 'DAY')] }
    expect((await official.call(request)).overall_code).toBe('OK')
    expect((await official.call(request)).overall_code).toBe('OVER_LIMIT')
  })

  it('means nothing in a domain that nobody has limits in', async () => {
    const response = await official.call({
      domain: 'nowhere',
      descriptors: [limited('t', 0, 'DAY')],
    })
    expect(response).toMatchObject({ overall_code: 'OK', statuses: [{ current_limit: null }] })
  })
})

describe('POST /json', () => {
  it('answers as ShouldRateLimit does, with 200 or 429, usual values left out', async () => {
    const domain = await aDomain(aPolicy({ name: 'one', limits: [{ ...HOUR, capacity: 2 }] }))
    const body = { domain, descriptors: [tenant('t')], hitsAddend: '1' }
    const first = await json(body)
    expect(first.status).toBe(200)
    expect(first.body).toEqual({
      overallCode: 'OK',
      statuses: [
        {
          code: 'OK',
          currentLimit: { requestsPerUnit: 2, unit: 'HOUR', name: 'one' },
          limitRemaining: 1,
          durationUntilReset: expect.stringMatching(/^\d+s$/),
        },
      ],
    })
    expect(first.headers['ratelimit-policy']).toBe('"one";q=2;w=3600')
    await json(body)
    const denied = await json({ domain, descriptors: [tenant('t')], hits_addend: 1 })
    expect(denied.status).toBe(429)
    expect(denied.body).toMatchObject({ overallCode: 'OVER_LIMIT' })
    expect(denied.body.statuses[0]).not.toHaveProperty('limitRemaining')
    const wait = denied.headers['retry-after']
    expect(denied.body.statuses[0].durationUntilReset).toBe(`${wait}s`)
  })

  it('reads own addends and limits of descriptors, in either case of the names', async () => {
    const domain = await aDomain(aPolicy({ limits: [{ ...HOUR, capacity: 5 }] }))
    const peek = { ...tenant('t'), hits_addend: '0' }
    const limit = { requestsPerUnit: 9, unit: 4 }
    const { body } = await json({ domain, descriptors: [peek, { ...tenant('u'), limit }] })
    expect(body.statuses).toMatchObject([
      { limitRemaining: 5 },
      { limitRemaining: 8, currentLimit: { unit: 'DAY' } },
    ])
  })

  it.each(['{', '[]', '{"domain":1}', '{"descriptor":[]}', '{"domain":"api","hitsAddend":-1}'])(
    'refuses %s',
    async (payload) => {
      const reply = await enforcer.app.inject({ method: 'POST', url: '/json', payload })
      expect(reply.statusCode).toBe(400)
      expect(reply.headers['content-type']).toContain('application/problem+json')
    },
  )

  it('has its health check beside it', async () => {
    const reply = await enforcer.app.inject('/healthcheck')
    expect(reply.statusCode).toBe(200)
    expect(reply.body).toBe('OK')
  })
})

describe('grpc.health.v1', () => {
  it('says serving for the server and the service, and knows no other', async () => {
    for (const service of ['', 'envoy.service.ratelimit.v3.RateLimitService']) {
      expect(await health.check(service)).toEqual({ status: 'SERVING' })
    }
    await expect(health.check('other')).rejects.toMatchObject({ code: status.NOT_FOUND })
  })

  it('tells watchers when it stops serving, and lets go of them', async () => {
    const second = await enforcer.listenGrpc('127.0.0.1', 0)
    const client = healthClient(second.port)
    const watch = client.watch('')
    await expect.poll(() => watch.told).toEqual(['SERVING'])
    await second.drain(5_000)
    await expect.poll(() => watch.hasEnded()).toBe(true)
    expect(watch.told).toEqual(['SERVING', 'NOT_SERVING'])
    client.close()
  })
})

describe.each([
  'token_bucket',
  'leaky_bucket',
  'fixed_window',
  'sliding_window',
  'sliding_log',
  'sliding_counter',
  'concurrency',
] as const)('a limit by %s', (algorithm) => {
  it('fills the same fields over HTTP, JSON and gRPC, admitted, read and denied (B064)', async () => {
    const limit = { algorithm, capacity: 3, windowMs: 60_000 }
    const domain = await aDomain(aPolicy({ name: 'three', limits: [limit] }))
    const request = { domain, descriptors: [tenant('t')] }
    const whole = (number: number | null) => Number.isInteger(number) && (number ?? -1) >= 0
    const overHttp = async (cost: number) => {
      const { answer } = await enforcer.check('t', { domain, cost })
      return answer.decisions[0]
    }
    const left = [
      (await overHttp(1))?.remaining,
      only(await official.call(request)).limit_remaining,
      (await json(request)).body.statuses[0].limitRemaining ?? 0,
    ]
    expect(left).toEqual([2, 1, 0])
    const peek = { domain, descriptors: [{ ...tenant('t'), hits_addend: { value: 0 } }] }
    for (const asked of [request, peek]) {
      const status = only(await present.call(asked))
      expect(status).toMatchObject({ code: 'OVER_LIMIT', limit_remaining: 0 })
      expect(status.current_limit?.requests_per_unit).toBe(3)
      expect(status.duration_until_reset?.seconds).toBeGreaterThanOrEqual(1)
    }
    const denied = await overHttp(1)
    expect(denied).toMatchObject({ allowed: false, limit: 3, remaining: 0, reason: 'limit' })
    expect([denied?.resetMs ?? null, denied?.retryAfterMs ?? null].every(whole)).toBe(true)
  })
})
