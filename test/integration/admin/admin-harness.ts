import type { FastifyInstance, InjectOptions } from 'fastify'
import { pino } from 'pino'
import type { AccessOptions } from '../../../services/admin/access/authenticate.ts'
import { TokenBook } from '../../../services/admin/access/token-book.ts'
import { createAdminApp } from '../../../services/admin/app.ts'
import { FactsBook } from '../../../services/admin/facts-book.ts'
import { LiveView } from '../../../services/admin/live-view.ts'
import { createAdminMetrics, observeState } from '../../../services/admin/metrics.ts'
import { PlaneCache } from '../../../services/admin/plane-cache.ts'
import { PlaneFollower } from '../../../services/admin/plane-follower.ts'
import { RolloutView } from '../../../services/admin/rollout-view.ts'
import { StreamHub } from '../../../services/admin/stream/stream-hub.ts'
import { createDatabase } from '../../../shared/postgres/client.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import type { Tables } from '../../../shared/postgres/tables.ts'
import { Secret } from '../../../shared/runtime/env.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import type { ListenTls } from '../../../shared/runtime/tls.ts'
import { testDatabaseUrl } from '../../support/test-database.ts'

export const TOKEN = 'test-token'
export const AUTHORIZED = { authorization: `Bearer ${TOKEN}` }

export interface Answer {
  readonly status: number
  readonly etag: string | undefined
  readonly headers: Readonly<Record<string, unknown>>
  // biome-ignore lint/suspicious/noExplicitAny: a test reads the fields it names, and fails on others.
  readonly body: any
}

/** An admin on a database of its own, without a socket; `clock` is the wall clock that it reads. */
export interface Admin {
  readonly url: string
  readonly app: FastifyInstance
  readonly db: Db
  readonly live: LiveView
  readonly rollouts: RolloutView
  readonly facts: FactsBook
  readonly stream: StreamHub
  readonly tokens: TokenBook
  readonly cache: PlaneCache
  readonly follower: PlaneFollower
  readonly clock: { nowMs: number }
  readonly announced: number[]
  /** Changes that the app told of. */
  changes(): number
  call(
    method: 'GET' | 'PUT' | 'POST' | 'DELETE',
    url: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer>
  register(...regions: string[]): Promise<void>
  create(changes?: object): Promise<Answer>
  close(): Promise<void>
}

export async function startAdmin(
  options: {
    readonly url?: string
    readonly poolMax?: number
    readonly acquireTimeoutMs?: number
    readonly requestsPerSecondMax?: number
    readonly verifyJwt?: AccessOptions['verifyJwt']
    readonly log?: Logger
    readonly tls?: ListenTls
    /** Told what regions would be. */
    readonly announce?: (revision: number, tokens: string | null) => void
  } = {},
): Promise<Admin> {
  const { log = pino({ level: 'silent' }) } = options
  const { url = await testDatabaseUrl(), poolMax, acquireTimeoutMs } = options
  const pool = {
    ...(poolMax !== undefined && { poolMax }),
    ...(acquireTimeoutMs !== undefined && { acquireTimeoutMs }),
  }
  const db = createDatabase<Tables>({ url, ...pool, onIdleError: () => {} })
  const clock = { nowMs: 1_800_000_000_000 }
  const wallMs = (): number => clock.nowMs
  const live = new LiveView()
  const rollouts = new RolloutView()
  const facts = new FactsBook()
  const states = { isBusUp: () => false, isDatabaseUp: () => follower.isDatabaseUp() }
  const cache = new PlaneCache(wallMs)
  const announced: number[] = []
  const announce = (revision: number, tokensMark: string | null): void => {
    announced.push(revision)
    options.announce?.(revision, tokensMark)
  }
  const follower = new PlaneFollower({
    db,
    cache,
    live,
    log,
    wallMs,
    monotonicMs: wallMs,
    migrations: 'migrations',
    announce,
  })
  await follower.stepOnce()
  const registry = createRegistry({ service: 'admin' }, false)
  const metrics = createAdminMetrics(registry)
  const onRefusal = (reason: string): void => metrics.streamsRefused.inc({ reason })
  const stream = new StreamHub({ cache, live, facts, rollouts, wallMs, onRefusal, ...states })
  observeState(registry, { cache, live, follower, facts, stream, isBusUp: () => false, wallMs })
  const tokens = new TokenBook(db, wallMs)
  let changes = 0
  const app = await createAdminApp({
    db,
    cache,
    live,
    rollouts,
    facts,
    wallMs,
    ...states,
    stream,
    log,
    registry,
    metrics,
    access: { planeToken: new Secret(TOKEN), tokens, verifyJwt: options.verifyJwt ?? null },
    ...(options.tls && { tls: options.tls }),
    requestsPerSecondMax: options.requestsPerSecondMax ?? 1_000_000,
    checks: [
      { name: 'postgres', isRequired: true, isReady: () => follower.isDatabaseUp() },
      { name: 'nats', isRequired: false, isReady: () => false },
    ],
    onChange: () => changes++,
    isRunning: () => true,
    isPrepared: () => follower.isPrepared(),
  })

  const call: Admin['call'] = async (method, path, body, headers = {}) => {
    const request: InjectOptions = { method, url: path, headers: { ...AUTHORIZED, ...headers } }
    const response = await app.inject({
      ...request,
      ...(body !== undefined && { payload: body as object }),
    })
    return {
      status: response.statusCode,
      etag: response.headers.etag as string | undefined,
      headers: response.headers,
      body: response.body === '' ? null : JSON.parse(response.body),
    }
  }
  return {
    url,
    app,
    db,
    live,
    rollouts,
    facts,
    stream,
    tokens,
    cache,
    follower,
    clock,
    announced,
    changes: () => changes,
    call,
    async register(...regions) {
      for (const region of regions) await call('PUT', `/v1/regions/${region}`, {})
      await follower.stepOnce()
    },
    create: (overrides) => call('POST', '/v1/policies', aPolicy(overrides)),
    async close() {
      await app.close()
      await db.destroy()
    },
  }
}

export const POLICY = '/v1/domains/api/policies/per-tenant'

/** A valid policy document for the regions us-east-1 and eu-west-1. */
export function aPolicy(changes: object = {}) {
  return {
    domain: 'api',
    name: 'per-tenant',
    match: [{ key: 'tenant' }],
    limits: [aLimit()],
    ...changes,
  }
}

export function aLimit(changes: object = {}) {
  return {
    name: 'per-second',
    algorithm: 'token_bucket',
    capacity: 10_000,
    windowMs: 1_000,
    split: { 'us-east-1': 60, 'eu-west-1': 40 },
    ...changes,
  }
}
