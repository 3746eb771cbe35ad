import type { FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { vi } from 'vitest'
import { createEnforcer, type Enforcer } from '../../../services/enforcer/enforcer.ts'
import type { RegionLimitSpec, RegionPolicySpec } from '../../../shared/core/policy.ts'
import type { RegionStore } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import type { CheckAnswer } from '../../../shared/protocol/check-answer.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { createCheckTokenReader } from '../../../shared/redis/check-token-reader.ts'
import { createRedis } from '../../../shared/redis/client.ts'
import { createDenialLog } from '../../../shared/redis/denial-log.ts'
import { createEnforcerRoll } from '../../../shared/redis/enforcer-roll.ts'
import { createLeaseStore } from '../../../shared/redis/lease-store.ts'
import { createPolicyReader } from '../../../shared/redis/policy-reader.ts'
import { listenForNews } from '../../../shared/redis/region-news.ts'
import { connectRegionStore } from '../../../shared/redis/region-store.ts'
import { createStoreClockReader } from '../../../shared/redis/store-clock-reader.ts'
import { createStoreMemoryReader } from '../../../shared/redis/store-memory.ts'
import { type Clock, systemClock } from '../../../shared/runtime/clock.ts'
import type { Secret } from '../../../shared/runtime/env.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import type { ListenTls } from '../../../shared/runtime/tls.ts'
import type { Tracer } from '../../../shared/runtime/tracing/tracer.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { LOGINS, USER_ARGUMENTS } from '../../support/redis-users.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from '../../support/region-policy.ts'

/** A region's Redis with what its daemon does to it, and enforcers over it. */
export interface TestRegion {
  readonly redis: RedisServer
  /** What the daemon does at its start: a boot under a new incarnation, the policies, then serving. */
  boot(policies: readonly RegionPolicySpec[], levels?: 'full' | 'empty'): Promise<void>
  /** What the daemon does when it finds its scripts gone and everything else there. */
  reopen(): Promise<void>
  /** Replaces the region's policies; gives the new version. */
  write(policies: readonly RegionPolicySpec[]): Promise<number>
  startEnforcer(options?: EnforcerOptions): Promise<TestEnforcer>
  stop(): Promise<void>
}

export interface EnforcerOptions {
  readonly clock?: Clock
  /** How long a check waits for Redis; ample unless told otherwise, for tests share the machine's cores. */
  readonly deadlineMs?: number
  /** Keeps denials that stay true, and hears the region's news. */
  readonly keepsDenials?: boolean
  readonly trustedHops?: number
  /** Whether hot counters are leased; not, unless told so, for most tests count what Redis has. */
  readonly leases?: boolean
  readonly tls?: ListenTls
  readonly tracer?: Tracer | undefined
  readonly debugToken?: Secret
  /** Whether callers must send a token. */
  readonly asksCallers?: boolean
}

export interface TestEnforcer extends Enforcer {
  /** Lines logged so far, parsed. */
  readonly lines: readonly { readonly level: number; readonly msg: string }[]
  /** Looks at once at how Redis is set up. */
  watch(): void
  /** Sends one check; a text stands for its first entry, `tenant`. */
  check(descriptor: Asked, options?: AskOptions): Promise<Reply>
  /** The value of the one series that has this name and contains these labels; 0 without. */
  series(name: string, labels?: string): Promise<number>
  close(): Promise<void>
}

export interface Reply {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly answer: CheckAnswer
}

type Asked = string | readonly Readonly<Record<string, string>>[]

interface AskOptions {
  readonly cost?: number
  readonly domain?: string
  readonly query?: string
}

let policyIds = 0
let limitIds = 0

/** A policy for each value of the key `tenant`, with one limit of 10 a second unless told otherwise. */
export function aPolicy(
  change: Partial<Omit<RegionPolicySpec, 'limits'>> & {
    readonly limits?: readonly Partial<RegionLimitSpec>[]
  } = {},
): RegionPolicySpec {
  const { limits = [{}], ...rest } = change
  const id = ++policyIds
  return {
    id,
    domain: 'api',
    name: `policy-${id}`,
    revision: id,
    ...PLAIN_POLICY,
    match: [{ key: 'tenant' }],
    onStoreFailure: 'allow',
    ...rest,
    limits: limits.map(aLimit),
  }
}

/** All of a limit of 10 a second, unless told otherwise. */
export function aLimit(change: Partial<RegionLimitSpec> = {}): RegionLimitSpec {
  const id = change.id ?? ++limitIds
  return {
    id,
    name: `limit-${id}`,
    algorithm: 'token_bucket',
    ...PLAIN_LIMIT,
    capacity: 10,
    windowMs: 1_000,
    burst: change.capacity ?? 10,
    usageEpoch: 0,
    home: POOL_UNITS,
    ...change,
  }
}

/** The same policy with its first limit changed, as an operator edits it. */
export function withLimit(
  policy: RegionPolicySpec,
  change: Partial<RegionLimitSpec>,
): RegionPolicySpec {
  const [first, ...others] = policy.limits
  if (first === undefined) throw new Error('a policy has a limit')
  const burst = change.burst ?? change.capacity ?? first.burst
  return {
    ...policy,
    revision: ++policyIds,
    limits: [{ ...first, ...change, burst }, ...others],
  }
}

export async function startRegion(
  policies: readonly RegionPolicySpec[],
  redisArgs: readonly string[] = [],
): Promise<TestRegion> {
  const redis = await startRedisServer({ args: [...USER_ARGUMENTS, ...redisArgs] })
  let daemon: RegionStore | undefined
  let incarnation = 0
  const enforcers: TestEnforcer[] = []
  const connect = async (): Promise<RegionStore> => {
    await daemon?.close()
    const options = { url: redis.url, login: LOGINS.sync, region: 'us-east-1', clock: systemClock }
    daemon = await connectRegionStore(options)
    await daemon.open()
    return daemon
  }
  const region: TestRegion = {
    redis,
    async boot(set, levels = 'full') {
      const store = await connect()
      await store.begin({ incarnation: ++incarnation, levels, recovering: false })
      await region.write(set)
      await store.serve()
    },
    async reopen() {
      const store = await connect()
      await store.serve()
    },
    write(set) {
      if (daemon === undefined) throw new Error('the daemon has not started')
      const revision = set.reduce((highest, policy) => Math.max(highest, policy.revision), 0)
      const change = { revision, members: ['us-east-1'], plane: [], recovering: false }
      return daemon.writePolicies({ ...change, region: set })
    },
    async startEnforcer(options = {}) {
      const enforcer = await startEnforcer(redis.url, options)
      enforcers.push(enforcer)
      return enforcer
    },
    async stop() {
      await Promise.all(enforcers.map((enforcer) => enforcer.close()))
      await daemon?.close()
      await redis.stop()
    },
  }
  await region.boot(policies)
  return region
}

/** One over the Redis at `url`, which somebody else's daemon leads. */
export async function startEnforcer(url: string, options: EnforcerOptions): Promise<TestEnforcer> {
  const { clock = systemClock, deadlineMs = 5_000 } = options
  const lines: TestEnforcer['lines'][number][] = []
  const log = pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line)) })
  const login = LOGINS.enforcer
  const redis = createRedis({ url, login, name: 'enforcer', onError: () => {} })
  const leaseStore = createLeaseStore({ redis })
  const enforcer = createEnforcer({
    ...(options.leases === true && { leaseStore }),
    ...(options.keepsDenials === true && { denialLog: createDenialLog({ redis }) }),
    ...(options.tls && { tls: options.tls }),
    storeMemory: createStoreMemoryReader({ redis }),
    storeClock: createStoreClockReader({ redis, clock }),
    roll: createEnforcerRoll({ redis }),
    region: 'us-east-1',
    store: createCheckStore({ redis, deadlineMs }),
    reader: createPolicyReader({ redis }),
    ...(options.asksCallers === true && { tokenReader: createCheckTokenReader({ redis }) }),
    clock,
    log,
    registry: createRegistry({ region: 'us-east-1' }, false),
    isRunning: () => true,
    headers: DRAFT_HEADERS,
    sender: { trustedHops: options.trustedHops ?? 0, ipv6Prefix: 64 },
    tracer: options.tracer,
    debugToken: options.debugToken,
  })
  const news = createRedis({ url, login, name: 'news', onError: () => {} })
  if (options.keepsDenials === true) listenForNews(news, enforcer.news)
  const denials = enforcer.keepDenials((err) => lines.push({ level: 60, msg: err.message }))
  const watching = enforcer.watchStore((err) => lines.push({ level: 60, msg: err.message }))
  const roll = enforcer.keepOnRoll((err) => lines.push({ level: 60, msg: err.message }))
  const leases = enforcer.keepLeases((err) => lines.push({ level: 60, msg: err.message }))
  const tokens = enforcer.followTokens((err) => lines.push({ level: 60, msg: err.message }))
  const loop = enforcer.followPolicies((err) => lines.push({ level: 60, msg: err.message }))
  await vi.waitFor(
    () => {
      if (enforcer.policies.current() === null) throw new Error('no policies yet')
    },
    { timeout: 5_000, interval: 10 },
  )
  return {
    ...enforcer,
    lines,
    watch: () => watching.wake(),
    check: (asked, options) => ask(enforcer.app, asked, options),
    series: (name, labels) => readSeries(enforcer.app, name, labels),
    async close() {
      const loops = [loop, tokens, leases, roll, denials, watching]
      await Promise.all(loops.map((one) => one.stop()))
      await enforcer.leave()
      await enforcer.app.close()
      redis.disconnect()
      news.disconnect()
    },
  }
}

async function ask(app: FastifyInstance, asked: Asked, options: AskOptions = {}): Promise<Reply> {
  const descriptors = typeof asked === 'string' ? [{ tenant: asked }] : asked
  const reply = await app.inject({
    method: 'POST',
    url: `/v1/check${options.query ?? ''}`,
    payload: {
      domain: options.domain ?? 'api',
      descriptors: descriptors.map((entries) => ({
        entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
      })),
      ...(options.cost !== undefined && { cost: options.cost }),
    },
  })
  return {
    status: reply.statusCode,
    retryAfter: reply.headers['retry-after']?.toString(),
    answer: reply.json(),
  }
}

async function readSeries(app: FastifyInstance, name: string, labels = ''): Promise<number> {
  const { body } = await app.inject('/metrics')
  const line = body.split('\n').find((text) => text.startsWith(`${name}{`) && text.includes(labels))
  return line === undefined ? 0 : Number(line.split(' ').at(-1))
}
