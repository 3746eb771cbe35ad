import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** `POST /v1/lease` and `POST /v1/lease/return` over a real Redis, as any client may ask. */

const HOUR_MS = 3_600_000
const CAPACITY = 1_000
const window = { algorithm: 'fixed_window', capacity: CAPACITY, windowMs: HOUR_MS } as const

type Change = Parameters<typeof aPolicy>[0]
const of = (domain: string, change: Change = {}) => aPolicy({ domain, limits: [window], ...change })
const limitOf = (domain: string, change: object) =>
  of(domain, { limits: [{ ...window, ...change }] })

/** Each in the domain of its reason. */
const refused: readonly RegionPolicySpec[] = [
  of('unlimited', { limits: [], unlimited: true }),
  limitOf('denied', { capacity: 0 }),
  of('several_limits', { limits: [window, { ...window, capacity: 50 }] }),
  of('watched', { shadow: true }),
  limitOf('sharded', { shards: 4 }),
  limitOf('algorithm', { algorithm: 'sliding_window' }),
  limitOf('long_window', { windowMs: 24 * HOUR_MS }),
  limitOf('off', { leases: 'off' }),
  limitOf('too_small', { capacity: 19 }),
]
const api = of('api', { name: 'per-tenant' })
const bucket = of('bucket', { limits: [{ capacity: 1_000, burst: 300, windowMs: 1_000 }] })

let region: TestRegion
let enforcer: TestEnforcer
let other: TestEnforcer
beforeAll(async () => {
  region = await startRegion([api, bucket, ...refused])
  enforcer = await region.startEnforcer({ leases: true })
  other = await region.startEnforcer({ leases: true })
})
afterAll(async () => await region.stop())

const keyOf = (tenant: string, domain = 'api') => ({
  domain,
  descriptors: [{ entries: [{ key: 'tenant', value: tenant }] }],
})

async function post(path: string, payload: object, by = enforcer) {
  const reply = await by.app.inject({ method: 'POST', url: path, payload })
  return { status: reply.statusCode, headers: reply.headers, body: reply.json() }
}

const lease = (tenant: string, tokens: number, domain = 'api') =>
  post('/v1/lease', { ...keyOf(tenant, domain), tokens })

const giveBack = (tenant: string, id: string, tokens: number, by = enforcer) =>
  post('/v1/lease/return', { ...keyOf(tenant), id, tokens }, by)

async function left(tenant: string, domain = 'api'): Promise<number> {
  const { answer } = await enforcer.check(tenant, { domain, cost: 0 })
  return answer.decisions[0]?.remaining ?? Number.NaN
}

describe('POST /v1/lease', () => {
  it('takes a block at once, and says what a check would be told, for how long, and under which policies', async () => {
    const { status, headers, body } = await lease('acme', 200)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      region: 'us-east-1',
      revision: enforcer.policies.current()?.revision,
      tokens: 200,
      id: expect.stringMatching(/^[0-9a-f-]{36}\.[\w-]{16}$/),
      lifeMs: 100,
      decision: {
        policy: 'api/per-tenant',
        allowed: true,
        limit: CAPACITY,
        windowMs: HOUR_MS,
        remaining: CAPACITY,
        retryAfterMs: null,
        descriptor: 0,
      },
    })
    expect(headers['ratelimit-policy']).toBe('"per-tenant";q=1000;w=3600')
    expect(headers['ratelimit']).toMatch(/^"per-tenant";r=1000;t=\d+$/)
    expect(await left('acme')).toBe(CAPACITY - 200)
  })

  it('gives never more than half of what is left, so that others have some', async () => {
    expect((await lease('half', 1_000)).body.tokens).toBe(CAPACITY / 2)
    expect((await lease('half', 1_000)).body.tokens).toBe(CAPACITY / 4)
  })

  it('gives up the burst that a bucket refills in the life of a block', async () => {
    const { tokens } = (await lease('acme', 1_000, 'bucket')).body
    expect(tokens).toBe((300 - 100) / 2)
  })

  it('gives nothing once nothing is left, and says so', async () => {
    await enforcer.check('empty', { cost: CAPACITY })
    expect((await lease('empty', 10)).body).toMatchObject({ tokens: 0, reason: 'empty' })
  })

  it.each(refused)(
    'says that a check is to be asked instead where it is $domain',
    async ({ domain }) => {
      const { status, body } = await lease('acme', 10, domain)
      expect(status).toBe(200)
      expect(body).toEqual({
        region: 'us-east-1',
        revision: expect.any(Number),
        tokens: 0,
        reason: domain,
      })
    },
  )

  it('says the same of what no policy governs, and of an enforcer without leases', async () => {
    expect((await lease('acme', 10, 'nowhere')).body.reason).toBe('unmatched')
    const without = await region.startEnforcer()
    const { body } = await post('/v1/lease', { ...keyOf('acme'), tokens: 10 }, without)
    expect(body.reason).toBe('off')
  })

  it('refuses what is not valid, with the field and the fix', async () => {
    const valid = { ...keyOf('acme'), tokens: 10 }
    const twice = [...valid.descriptors, ...valid.descriptors]
    const wrong: readonly (readonly [field: string, body: object])[] = [
      ['body', []],
      ['tokens', keyOf('acme')],
      ['tokens', { ...valid, tokens: 0 }],
      ['tokens', { ...valid, tokens: 1.5 }],
      ['tokens', { ...valid, tokens: '10' }],
      ['tokens', { ...valid, tokens: 2 ** 53 }],
      ['descriptors', { ...valid, descriptors: twice }],
      ['descriptors', { ...valid, descriptors: [] }],
      ['domain', { ...valid, domain: '' }],
      ['cost', { ...valid, cost: 1 }],
      ['requestId', { ...valid, requestId: 'a' }],
      ['id', { ...valid, id: 'a' }],
    ]
    for (const [field, body] of wrong) {
      const reply = await post('/v1/lease', body)
      expect(reply.status).toBe(400)
      expect(reply.headers['content-type']).toContain('application/problem+json')
      expect(reply.body.errors).toContainEqual(
        expect.objectContaining({ field, fix: expect.any(String) }),
      )
    }
  })
})

describe('POST /v1/lease/return', () => {
  it('credits what is left of a block once, by whichever enforcer it comes', async () => {
    const { id } = (await lease('once', 200)).body
    for (const by of [other, enforcer, other]) {
      expect((await giveBack('once', id, 150, by)).body).toEqual({ outcome: 'returned' })
      expect(await left('once')).toBe(CAPACITY - 50)
    }
  })

  it('credits no more than the block had', async () => {
    await enforcer.check('more', { cost: 500 })
    const { id } = (await lease('more', 50)).body
    await giveBack('more', id, 400)
    expect(await left('more')).toBe(CAPACITY - 500)
  })

  it('credits a block to no other counter, nor one that was never granted', async () => {
    await enforcer.check('victim', { cost: 500 })
    const { id } = (await lease('mine', 100)).body
    expect((await giveBack('victim', id, 100)).body).toEqual({ outcome: 'unmatched' })
    // An id that nobody was told, bound to the right counter.
    const own = (await lease('victim', 100)).body.id as string
    const guessed = `00000000-0000-0000-0000-000000000000${own.slice(36)}`
    await giveBack('victim', guessed, 100)
    expect(await left('victim')).toBe(CAPACITY - 500 - 100)
  })

  it('credits a bucket nothing after the life of the block', async () => {
    const { id, tokens } = (await lease('late', 100, 'bucket')).body
    const at = performance.now() + 110
    await expect.poll(() => performance.now() >= at, { interval: 5 }).toBe(true)
    const keys = { ...keyOf('late', 'bucket'), id, tokens }
    // Whatever it has by then, it has by refilling: the credit would be seen beside the burst that it may hold.
    await enforcer.check('late', { domain: 'bucket', cost: 200 })
    const before = await left('late', 'bucket')
    const askedMs = performance.now()
    await post('/v1/lease/return', keys)
    const after = await left('late', 'bucket')
    expect(after - before).toBeLessThanOrEqual(performance.now() - askedMs + 20)
  })

  it('refuses what is not valid', async () => {
    const id = `00000000-0000-0000-0000-000000000000.${'a'.repeat(16)}`
    const valid = { ...keyOf('acme'), id, tokens: 10 }
    for (const wrong of ['', 'a', 7, `${id}x`, `../${id}`, undefined]) {
      const reply = await post('/v1/lease/return', { ...valid, id: wrong })
      expect(reply.status).toBe(400)
      expect(reply.body.errors).toContainEqual(expect.objectContaining({ field: 'id' }))
    }
    expect((await post('/v1/lease/return', { ...valid, tokens: 0 })).status).toBe(400)
  })
})

describe('the metrics of an enforcer', () => {
  it('count blocks by what became of them, and no check', async () => {
    const counting = await region.startEnforcer({ leases: true })
    const { body } = await post('/v1/lease', { ...keyOf('metrics'), tokens: 40 }, counting)
    await post('/v1/lease', { ...keyOf('metrics', 'off'), tokens: 40 }, counting)
    await giveBack('metrics', body.id, 15, counting)
    const leases = (outcome: string) =>
      counting.series('quotaplane_client_leases_total', `outcome="${outcome}"`)
    const tokens = (kind: string) =>
      counting.series('quotaplane_client_lease_tokens_total', `kind="${kind}"`)
    expect([await leases('granted'), await leases('off')]).toEqual([1, 1])
    expect([await tokens('granted'), await tokens('returned')]).toEqual([40, 15])
    expect(await counting.series('quotaplane_checks_total', 'outcome="allowed"')).toBe(0)
  })
})

describe('without Redis', () => {
  it('there is no block, and a client is told so at once and not by a failure', async () => {
    region.redis.pause()
    try {
      const { status, body } = await lease('paused', 10)
      expect(status).toBe(200)
      expect(body).toMatchObject({ tokens: 0, reason: 'store_unavailable' })
    } finally {
      region.redis.resume()
    }
    // What Redis granted after all went back, for nobody could have spent it.
    await expect.poll(() => left('paused'), { timeout: 5_000 }).toBe(CAPACITY)
  })
})
