import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const HOUR = { algorithm: 'fixed_window', windowMs: 3_600_000 } as const

const PER_TENANT = `domain=api&descriptor=${encodeURIComponent('tenant:header:x-tenant')}`
const PER_CLIENT = `domain=api&descriptor=${encodeURIComponent('client:client')}`

let region: TestRegion
let enforcer: TestEnforcer
/** Behind a gateway and one more proxy. */
let behind: TestEnforcer

beforeAll(async () => {
  const limits = [{ ...HOUR, capacity: 2 }]
  region = await startRegion([
    aPolicy({ name: 'tenants', limits }),
    aPolicy({ name: 'clients', match: [{ key: 'client' }], limits }),
    aPolicy({ name: 'routes', match: [{ key: 'plan', value: 'free' }, { key: 'route' }], limits }),
  ])
  enforcer = await region.startEnforcer()
  behind = await region.startEnforcer({ trustedHops: 2 })
})
afterAll(() => region.stop())

interface Sent {
  readonly headers?: Readonly<Record<string, string>>
  readonly from?: string
  readonly at?: TestEnforcer
}

function authorize(query: string, { headers = {}, from = '192.0.2.1', at = enforcer }: Sent = {}) {
  return at.app.inject({ url: `/v1/authorize?${query}`, headers, remoteAddress: from })
}

async function statuses(query: string, requests: readonly Sent[]): Promise<number[]> {
  const found = []
  for (const request of requests) found.push((await authorize(query, request)).statusCode)
  return found
}

describe('GET /v1/authorize', () => {
  it('is 200 without a body while the limit allows, then 429 with a problem and the wait', async () => {
    const headers = { 'x-tenant': 'acme' }
    const allowed = await authorize(PER_TENANT, { headers })
    expect(allowed.statusCode).toBe(200)
    expect(allowed.body).toBe('')
    expect(allowed.headers['ratelimit']).toMatch(/^"tenants";r=1;t=\d+$/)
    await authorize(PER_TENANT, { headers })
    const denied = await authorize(PER_TENANT, { headers })
    expect(denied.statusCode).toBe(429)
    expect(denied.headers['content-type']).toContain('application/problem+json')
    expect(denied.json()).toMatchObject({ status: 429, 'violated-policies': ['tenants'] })
    expect(Number(denied.headers['retry-after'])).toBeGreaterThan(0)
  })

  it('refuses with 403 where the gateway knows no other refusal, with the same header fields', async () => {
    const headers = { 'x-tenant': 'nginx' }
    for (let turn = 0; turn < 2; turn++) await authorize(PER_TENANT, { headers })
    const denied = await authorize(`${PER_TENANT}&deny=403`, { headers })
    expect(denied.statusCode).toBe(403)
    expect(denied.json()).toMatchObject({ status: 403, 'violated-policies': ['tenants'] })
    expect(denied.headers['retry-after']).toBeDefined()
    expect(denied.headers['ratelimit']).toMatch(/^"tenants";r=0/)
  })

  it('reads constants and paths, the path without its query', async () => {
    const query = `domain=api&descriptor=${encodeURIComponent('plan:value:free,route:path:x-original-uri')}`
    const at = (uri: string): Sent => ({ headers: { 'x-original-uri': uri } })
    const asked = ['/a?x=1', '/a?x=2', '/a#y', '/b'].map(at)
    expect(await statuses(query, asked)).toEqual([200, 200, 429, 200])
  })

  it('spends the cost that the gateway sets, and nothing at 0', async () => {
    const request = { headers: { 'x-tenant': 'cost' } }
    expect((await authorize(`${PER_TENANT}&cost=0`, request)).headers['ratelimit']).toContain('r=2')
    expect((await authorize(`${PER_TENANT}&cost=3`, request)).statusCode).toBe(429)
    expect((await authorize(`${PER_TENANT}&cost=2`, request)).statusCode).toBe(200)
  })

  it('lets nobody choose another sender by a header of his own (B077)', async () => {
    const forged = ['198.51.100.1', '198.51.100.2', '198.51.100.3'].map((address) => ({
      headers: { 'x-forwarded-for': address },
      from: '192.0.2.77',
    }))
    expect(await statuses(PER_CLIENT, forged)).toEqual([200, 200, 429])
    const chained = ['1.1.1.1', '2.2.2.2', '3.3.3.3'].map((address) => ({
      headers: { 'x-forwarded-for': `${address}, 203.0.113.5, 10.0.0.2` },
      at: behind,
    }))
    expect(await statuses(PER_CLIENT, chained)).toEqual([200, 200, 429])
  })

  it('counts an IPv6 network as one sender, and a mapped address as the IPv4 one (B076)', async () => {
    const network = Array.from({ length: 5 }, (_, host) => ({ from: `2001:db8:9:9::${host + 1}` }))
    expect(await statuses(PER_CLIENT, network)).toEqual([200, 200, 429, 429, 429])
    const mapped = [{ from: '::ffff:192.0.2.88' }, { from: '192.0.2.88' }, { from: '192.0.2.88' }]
    expect(await statuses(PER_CLIENT, mapped)).toEqual([200, 200, 429])
  })

  it('lets nobody pass who brings no identity, unless the gateway says what stands in (B077)', async () => {
    for (const headers of [{}, { 'x-tenant': '' }, { 'x-tenant': '  ' }]) {
      const reply = await authorize(PER_TENANT, { headers })
      expect(reply.statusCode).toBe(403)
      expect(reply.json()).toMatchObject({ code: 'QUOTA_IDENTITY_MISSING' })
    }
    expect(await statuses(`${PER_TENANT}&missing=anonymous`, [{}, {}, {}])).toEqual([200, 200, 429])
    const senders = ['192.0.2.91', '192.0.2.92', '192.0.2.91', '192.0.2.91'].map((from) => ({
      from,
    }))
    expect(await statuses(`${PER_TENANT}&missing=client`, senders)).toEqual([200, 200, 200, 429])
  })

  it('counts odd and endless identities apart (B079)', async () => {
    const odd = [
      '__proto__',
      'constructor',
      'a,b',
      'undefined',
      'x'.repeat(4_000),
      `${'x'.repeat(3_999)}y`,
    ]
    for (const tenant of odd) {
      const requests = Array.from({ length: 3 }, () => ({ headers: { 'x-tenant': tenant } }))
      expect(await statuses(PER_TENANT, requests), tenant.slice(0, 20)).toEqual([200, 200, 429])
    }
  })

  it('passes what no policy governs', async () => {
    expect((await authorize('domain=nowhere&descriptor=a:value:b')).statusCode).toBe(200)
  })

  it.each([
    ['', 'query.domain'],
    ['domain=api', 'query.descriptor'],
    ['domain=api&descriptor=tenant', 'query.descriptor'],
    ['domain=api&descriptor=tenant:cookie:x', 'query.descriptor'],
    ['domain=api&descriptor=tenant:header:', 'query.descriptor'],
    ['domain=api&descriptor=tenant:header:x%20y', 'query.descriptor'],
    [`${PER_TENANT}&deny=500`, 'query.deny'],
    [`${PER_TENANT}&missing=allow`, 'query.missing'],
    [`${PER_TENANT}&cost=-1`, 'query.cost'],
    [`${PER_TENANT}&domain=other`, 'query.domain'],
    [`${PER_TENANT}&tenant=x`, 'query.tenant'],
  ])('names what is wrong with ?%s', async (query, field) => {
    const reply = await authorize(query, { headers: { 'x-tenant': 't' } })
    expect(reply.statusCode).toBe(400)
    expect(reply.json().errors[0]).toMatchObject({ field, fix: expect.any(String) })
  })
})
