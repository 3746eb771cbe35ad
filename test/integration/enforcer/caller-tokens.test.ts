import { Metadata, status } from '@grpc/grpc-js'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createPolicySource, LISTEN_MS } from '../../../services/admin/policy-source.ts'
import { runProgram } from '../../../services/cli/program.ts'
import { NatsLink } from '../../../shared/nats/client.ts'
import { PolicyPublisher } from '../../../shared/nats/policy-publisher.ts'
import { REGION_KEYS } from '../../../shared/redis/keys.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { USER_ARGUMENTS } from '../../support/redis-users.ts'
import { presentClient, type RlsClient } from '../../support/rls-client.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'
import { type Admin, startAdmin } from '../admin/admin-harness.ts'
import { startDaemon, type TestDaemon, untilLeading } from '../sync/region.ts'
import { startEnforcer, type TestEnforcer } from './region.ts'

/** Tokens on their whole way: Postgres, admin, NATS, a region's daemon, its Redis, its enforcers. */

const log = pino({ level: 'silent' })
const DESCRIPTORS = [{ entries: [{ key: 'tenant', value: 'acme' }] }]
const SECONDS = { timeout: 10_000, interval: 20 }

let nats: NatsServer
let redis: RedisServer
/** A look at what it holds. */
let stored: Redis
let admin: Admin
let adminLink: NatsLink
let daemon: TestDaemon
let enforcer: TestEnforcer
let open: TestEnforcer
let url: string
let grpcPort: number
let tokens: Record<'all' | 'other' | 'reader' | 'root', string>
let created = 0

beforeAll(async () => {
  nats = await startNats()
  redis = await startRedisServer({ args: USER_ARGUMENTS })
  stored = new Redis(redis.url)
  adminLink = new NatsLink({ url: nats.url, name: 'admin', log })
  let publisher: PolicyPublisher | null = null
  admin = await startAdmin({
    announce: (revision, mark) => publisher?.announce(revision, mark),
  })
  const { db, live, cache } = admin
  const source = createPolicySource({
    ...{ db, live, cache },
    wallMs: () => admin.clock.nowMs,
    listeningMs: () => LISTEN_MS,
  })
  publisher = new PolicyPublisher({ link: adminLink, source, log })
  adminLink.start()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  tokens = {
    all: (await create(['quota:check'])).token,
    other: (await create(['quota:check'], ['other'])).token,
    reader: (await create(['quota:read', 'quota:write'])).token,
    root: (await create(['quota:admin'])).token,
  }
  daemon = startDaemon({ region: 'us-east-1', redisUrl: redis.url, natsUrl: nats.url })
  await untilLeading(daemon)
  await admin.follower.stepOnce()
  enforcer = await startEnforcer(redis.url, { asksCallers: true })
  open = await startEnforcer(redis.url, {})
  url = await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
  grpcPort = (await enforcer.listenGrpc('127.0.0.1', 0)).port
  await vi.waitFor(async () => {
    expect((await enforcer.app.inject('/readyz')).statusCode).toBe(200)
  }, SECONDS)
})
afterAll(async () => {
  await enforcer?.close()
  await open?.close()
  await daemon?.stop()
  await adminLink?.close()
  await admin?.close()
  stored?.disconnect()
  await redis?.stop()
  await nats?.stop()
})

async function create(scopes: readonly string[], domains?: readonly string[]) {
  const { status, body } = await admin.call('POST', '/v1/tokens', {
    name: `caller-${++created}`,
    scopes,
    ...(domains && { domains }),
  })
  expect(status).toBe(201)
  return body as { readonly id: string; readonly token: string }
}

const bearer = (token: string | null) =>
  token === null ? {} : { authorization: `Bearer ${token}` }

const NOBODY = '00000000-0000-0000-0000-000000000000'

/** Every way in that decides or takes back, asked about the domain `api`. */
const WAYS = [
  ['POST', '/v1/check', { domain: 'api', descriptors: DESCRIPTORS }],
  ['POST', '/v1/check?deny=429', { domain: 'api', descriptors: DESCRIPTORS }],
  [
    'POST',
    '/v1/refund',
    { domain: 'api', descriptors: DESCRIPTORS, requestId: 'a', admittedAtUs: 1 },
  ],
  ['POST', '/v1/release', { domain: 'api', descriptors: DESCRIPTORS, requestId: 'a' }],
  ['POST', '/v1/lease', { domain: 'api', descriptors: DESCRIPTORS, tokens: 20 }],
  [
    'POST',
    '/v1/lease/return',
    { domain: 'api', descriptors: DESCRIPTORS, tokens: 20, id: `${NOBODY}.${'a'.repeat(16)}` },
  ],
  ['GET', '/v1/authorize?domain=api&descriptor=tenant:value:acme', undefined],
  ['POST', '/json', { domain: 'api', descriptors: DESCRIPTORS }],
] as const

const BATCH = { checks: [{ domain: 'api', descriptors: DESCRIPTORS }] }

function send(way: readonly [string, string, unknown], token: string | null, of = enforcer) {
  const [method, path, payload] = way
  return of.app.inject({
    method: method as 'GET',
    url: path,
    headers: bearer(token),
    ...(payload !== undefined && { payload: payload as object }),
  })
}

/** Over the socket, where a plain check is answered before the framework. */
function check(token: string | null, domain = 'api'): Promise<Response> {
  return fetch(`${url}/v1/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...bearer(token) },
    body: JSON.stringify({ domain, descriptors: DESCRIPTORS }),
  })
}

const statusOf = async (token: string): Promise<number> => (await check(token)).status

/** Admin beats all the while: a hint that comes while the daemon asks is answered by that, or comes again. */
async function untilStatus(token: string, status: number): Promise<void> {
  const beat = async (): Promise<number> => {
    await admin.follower.stepOnce()
    return await statusOf(token)
  }
  await expect.poll(beat, SECONDS).toBe(status)
}

describe('an enforcer that asks who its callers are', () => {
  it.each(WAYS)('lets a caller with quota:check in, and nobody without: %s %s', async (...way) => {
    expect((await send(way, tokens.all)).statusCode).toBe(200)
    expect((await send(way, tokens.root)).statusCode).toBe(200)
    const nobody = await send(way, null)
    expect(nobody.statusCode).toBe(401)
    expect(nobody.headers['www-authenticate']).toBe('Bearer')
    expect(nobody.json()).toMatchObject({
      code: 'QUOTA_UNAUTHENTICATED',
      detail: expect.stringContaining('quota:check'),
      errors: [{ field: 'authorization', fix: expect.stringContaining('Authorization: Bearer') }],
    })
    for (const wrong of [
      tokens.reader,
      `${tokens.all}x`,
      'nonsense',
      tokens.all.replace(/.$/, '-'),
    ]) {
      const refused = await send(way, wrong)
      expect(refused.statusCode).toBe(401)
      expect(refused.headers['www-authenticate']).toBe('Bearer error="invalid_token"')
      expect(refused.body).not.toContain(wrong)
    }
  })

  it.each(WAYS)('refuses a token that is for other domains: %s %s', async (...way) => {
    const refused = await send(way, tokens.other)
    expect(refused.statusCode).toBe(403)
    expect(refused.headers['www-authenticate']).toContain('insufficient_scope')
    expect(refused.json()).toMatchObject({ code: 'QUOTA_FORBIDDEN', errors: [{ field: 'domain' }] })
  })

  it('answers a check over a socket by the same rules', async () => {
    const answers = [
      check(tokens.all),
      check(null),
      check(tokens.other),
      check(tokens.other, 'other'),
    ]
    const statuses = (await Promise.all(answers)).map((answer) => answer.status)
    expect(statuses).toEqual([200, 401, 403, 200])
    expect((await check(null)).headers.get('www-authenticate')).toBe('Bearer')
  })

  it('refuses of a batch the checks of other domains, and all of it without a token', async () => {
    const both = { checks: [...BATCH.checks, { domain: 'other', descriptors: DESCRIPTORS }] }
    const answer = await send(['POST', '/v1/check/batch', both], tokens.other)
    expect(answer.json().answers.map((one: { status: number }) => one.status)).toEqual([403, 200])
    expect(
      (await send(['POST', '/v1/check/batch', both], tokens.all)).json().answers,
    ).toMatchObject([{ status: 200 }, { status: 200 }])
    expect((await send(['POST', '/v1/check/batch', both], null)).statusCode).toBe(401)
  })

  it('asks for nothing where probes and scrapers look', async () => {
    for (const path of [
      '/livez',
      '/healthz',
      '/readyz',
      '/metrics',
      '/openapi.json',
      '/healthcheck',
    ]) {
      expect((await enforcer.app.inject(path)).statusCode).toBe(200)
    }
    expect((await enforcer.app.inject('/nowhere')).statusCode).toBe(404)
  })

  it('says over gRPC what a caller lacks', async () => {
    const client: RlsClient = presentClient(grpcPort)
    const call = (token: string | null, domain = 'api') => {
      const metadata = new Metadata()
      if (token !== null) metadata.set('authorization', `Bearer ${token}`)
      return client.call({ domain, descriptors: DESCRIPTORS }, metadata)
    }
    await expect(call(null)).rejects.toMatchObject({ code: status.UNAUTHENTICATED })
    await expect(call(tokens.reader)).rejects.toMatchObject({ code: status.UNAUTHENTICATED })
    await expect(call(tokens.other)).rejects.toMatchObject({ code: status.PERMISSION_DENIED })
    expect((await call(tokens.all)).overall_code).toBe('OK')
    expect((await call(tokens.other, 'other')).overall_code).toBe('OK')
    client.close()
  })

  it('is asked by the command with a token of its own', async () => {
    const run = async (env: Readonly<Record<string, string>>, ...args: readonly string[]) => {
      const io = ioWith({ env: { QUOTAPLANE_ENFORCER_URL: url, ...env } })
      const code = await runProgram(['check', '--domain', 'api', 'tenant=acme', ...args], io)
      return { code, err: io.written.err }
    }
    expect(await run({})).toMatchObject({ code: 1, err: expect.stringContaining('quota:check') })
    expect(await run({ QUOTAPLANE_ENFORCER_TOKEN: tokens.all })).toEqual({ code: 0, err: '' })
    expect(await run({}, '--enforcer-token', tokens.all)).toEqual({ code: 0, err: '' })
    // That of admin may do more, and is not shown to an enforcer.
    expect((await run({ QUOTAPLANE_TOKEN: tokens.all })).code).toBe(1)
  })
})

describe('an enforcer that does not ask', () => {
  it.each(WAYS)('answers anybody, whatever token is sent: %s %s', async (...way) => {
    for (const token of [null, 'nonsense', tokens.reader, tokens.other]) {
      expect((await send(way, token, open)).statusCode).toBe(200)
    }
  })
})

describe('a token that is made or revoked', () => {
  it('works, and then works no more, within seconds', async () => {
    const { id, token } = await create(['quota:check'], ['api'])
    expect(await statusOf(token)).toBe(401)
    await untilStatus(token, 200)
    await admin.call('DELETE', `/v1/tokens/${id}`)
    await untilStatus(token, 401)
    expect(await statusOf(tokens.all)).toBe(200)
  })

  it('reaches the regions over several pages, with no secret on the way', async () => {
    const many: Awaited<ReturnType<typeof create>>[] = []
    // One after another: each has the plane for itself, and the last of forty at once could wait for too long.
    while (many.length < 40) many.push(await create(['quota:check']))
    for (const { token } of many) await untilStatus(token, 200)
    const text = (await stored.hgetall(REGION_KEYS.region))['checkTokens'] ?? ''
    for (const { id, token } of many) {
      expect(text).toContain(id)
      expect(text).not.toContain(token.slice(-43))
    }
  })

  it('is kept by a region that is cut off, and followed once it is not', async () => {
    const { id, token } = await create(['quota:check'])
    await untilStatus(token, 200)
    await nats.halt()
    await expect.poll(() => daemon.link.isConnected(), SECONDS).toBe(false)
    await admin.call('DELETE', `/v1/tokens/${id}`)
    await admin.follower.stepOnce()
    // One that restarted meanwhile goes by what Redis has.
    const restarted = await startEnforcer(redis.url, { asksCallers: true })
    await expect
      .poll(async () => (await restarted.app.inject('/readyz')).statusCode, SECONDS)
      .toBe(200)
    expect((await send(WAYS[0], token, restarted)).statusCode).toBe(200)
    expect(await statusOf(token)).toBe(200)
    await restarted.close()
    await nats.start()
    await untilStatus(token, 401)
  })

  it('comes back into a Redis that lost it, and no daemon puts an older reading over a newer', async () => {
    const asOf = async (): Promise<number> =>
      Number(await stored.hget(REGION_KEYS.region, 'checkTokensAsOf'))
    await stored.hdel(REGION_KEYS.region, 'checkTokens', 'checkTokensAsOf')
    await daemon.cutRedis()
    await expect.poll(asOf, SECONDS).toBeGreaterThan(0)
    // What a daemon that led meanwhile would have written.
    const later = (await asOf()) + 60_000
    await stored.hset(REGION_KEYS.region, { checkTokens: '[]', checkTokensAsOf: String(later) })
    const fence = async (): Promise<number> => Number(await stored.get(REGION_KEYS.fence))
    const before = await fence()
    await daemon.cutRedis()
    await expect.poll(fence, SECONDS).toBeGreaterThan(before)
    await untilLeading(daemon)
    await expect.poll(() => statusOf(tokens.all), SECONDS).toBe(401)
    expect(await asOf()).toBe(later)
  })
})
