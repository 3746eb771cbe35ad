/** One enforcer process: its clients, loops and listeners, in the order in which they are released in reverse. */
import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { DRAFT_HEADERS, parseHeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createCheckTokenReader } from '../../shared/redis/check-token-reader.ts'
import { createDenialLog } from '../../shared/redis/denial-log.ts'
import { createEnforcerRoll } from '../../shared/redis/enforcer-roll.ts'
import { createLeaseStore } from '../../shared/redis/lease-store.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { listenForNews } from '../../shared/redis/region-news.ts'
import { openNewsRedis, openRegionRedis } from '../../shared/redis/region-redis.ts'
import { REDIS_CERTIFICATES, redisTarget } from '../../shared/redis/settings.ts'
import { createStoreClockReader } from '../../shared/redis/store-clock-reader.ts'
import { createStoreMemoryReader } from '../../shared/redis/store-memory.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import type { Loop } from '../../shared/runtime/every.ts'
import { createFailureLog } from '../../shared/runtime/failure-log.ts'
import { keepCertificates } from '../../shared/runtime/keep-certificates.ts'
import type { Lifecycle } from '../../shared/runtime/lifecycle.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import { createRegistry } from '../../shared/runtime/metrics.ts'
import { listenerNames } from '../../shared/runtime/tls.ts'
import { openTracing } from '../../shared/runtime/tracing/open.ts'
import { asksCallers, type EnforcerConfig } from './config.ts'
import { createEnforcer, type Enforcer } from './enforcer.ts'
import { metricsOfAll, obeyFirstProcess } from './workers.ts'

/** What answering the last checks takes beyond the wait for Redis, on a busy host. */
const ANSWERING_MS = 1_000

/** How long taking leave of Redis may take, one step; when it hangs, leases and the roll end by themselves. */
const LEAVING_MS = 250

/**
 * How long a process that shares its ports waits for policies and tokens before it takes requests. The others answer meanwhile;
 * with Redis away there is nothing to wait for, and health must be answered.
 */
const WARM_UP_MS = 2_000
const WARM_UP_LOOK_MS = 10

/** One check in a hundred is traced though its caller does not trace it; and what a collector that hangs may hold the process for. */
const TRACING = { service: 'enforcer', ratio: 0.01, closeMs: 500 }

export interface Serving {
  /** What the settings were read from. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly config: EnforcerConfig
  readonly log: Logger
  readonly life: Lifecycle
  /** Its number, where this is one of several processes that share their ports. */
  readonly worker: string | null
}

export async function serveEnforcer(serving: Serving): Promise<void> {
  const enforcer = await openEnforcer(serving)
  await startLoops(serving, enforcer)
  if (serving.worker !== null) await whenAble(enforcer)
  await listen(serving, enforcer)
}

async function whenAble(enforcer: Enforcer): Promise<void> {
  const endMs = performance.now() + WARM_UP_MS
  while (!enforcer.isAble() && performance.now() < endMs) {
    await delay(WARM_UP_LOOK_MS)
  }
}

async function openEnforcer(serving: Serving): Promise<Enforcer> {
  const { config, environment, log, life, worker } = serving
  const registry = createRegistry(
    { region: config.REGION, ...(worker !== null && { worker }) },
    true,
  )
  const certificates = await keepCertificates({
    ...{ config, environment, log, life, registry },
    onBug: stopOnBug,
    uses: [listenerNames('ENFORCER'), REDIS_CERTIFICATES],
  })
  const redisOptions = redisOptionsOf(certificates.over(config), log)
  if (worker !== null) obeyFirstProcess(registry)
  const tracer = await openTracing({ ...serving, ...TRACING, region: config.REGION, registry })
  // Nothing is waited for: commands in flight belong to checks, which have been answered by then.
  const redis = await life.acquire(
    'redis',
    () => openRegionRedis(redisOptions('checks')),
    (client) => client.disconnect(),
  )
  const loopStalls = { count: 0 }
  const enforcer = createEnforcer({
    region: config.REGION,
    name: `${hostname()}:${config.ENFORCER_PORT}${worker === null ? '' : `#${worker}`}`,
    store: createCheckStore({
      redis,
      deadlineMs: config.REDIS_DEADLINE_MS,
      onStall: () => loopStalls.count++,
    }),
    leaseStore: createLeaseStore({ redis }),
    denialLog: createDenialLog({ redis }),
    storeMemory: createStoreMemoryReader({ redis }),
    storeClock: createStoreClockReader({ redis, clock: systemClock }),
    roll: createEnforcerRoll({ redis }),
    reader: createPolicyReader({ redis }),
    tokenReader: asksCallers(config) ? createCheckTokenReader({ redis }) : undefined,
    clock: systemClock,
    log,
    registry,
    tls: certificates.listener(),
    metricsText: worker === null ? undefined : () => metricsOfAll(registry),
    loopStalls,
    isRunning: () => life.isRunning(),
    headers: parseHeaderChoice(config.RATE_LIMIT_HEADERS) ?? DRAFT_HEADERS,
    sender: {
      trustedHops: config.TRUSTED_PROXY_HOPS,
      ipv6Prefix: config.SENDER_NETWORK_BITS,
    },
    tracer,
    debugToken: config.ENFORCER_DEBUG_TOKEN,
  })
  const news = await life.acquire(
    'news',
    () => openNewsRedis(redisOptions('news')),
    (client) => client.disconnect(),
  )
  listenForNews(news, enforcer.news)
  return enforcer
}

/** A Redis that hangs must not hold the process, so what each loop does last has a bound. */
async function startLoops({ config, life }: Serving, enforcer: Enforcer): Promise<void> {
  const keep = (name: string, start: () => Loop, last: (loop: Loop) => readonly Last[]) =>
    life.acquire(name, start, async (loop) => {
      for (const step of last(loop)) await Promise.race([step(), delay(LEAVING_MS)])
    })
  await keep(
    'roll',
    () => enforcer.keepOnRoll(stopOnBug),
    (loop) => [() => loop.stop(), () => enforcer.leave()],
  )
  await keep(
    'leases',
    () => enforcer.keepLeases(stopOnBug),
    (loop) => [() => enforcer.giveUpLeases(), () => loop.stop()],
  )
  await keep(
    'denials',
    () => enforcer.keepDenials(stopOnBug),
    (loop) => [() => loop.stop(), () => enforcer.countDenials()],
  )
  await keep(
    'store',
    () => enforcer.watchStore(stopOnBug),
    (loop) => [() => loop.stop()],
  )
  if (asksCallers(config)) {
    await life.acquire(
      'tokens',
      () => enforcer.followTokens(stopOnBug),
      (loop) => loop.stop(),
    )
  }
  await life.acquire(
    'policies',
    () => enforcer.followPolicies(stopOnBug),
    (loop) => loop.stop(),
  )
}

type Last = () => Promise<void>

async function listen({ config, log, life, worker }: Serving, enforcer: Enforcer): Promise<void> {
  const lastRequestsMs = config.REDIS_DEADLINE_MS + ANSWERING_MS
  const grpc = await life.acquire(
    'grpc listener',
    () => enforcer.listenGrpc(config.ENFORCER_HOST, config.ENFORCER_GRPC_PORT),
    (listener) => listener.drain(lastRequestsMs),
  )
  const url = await life.acquire(
    'listener',
    () => enforcer.app.listen({ host: config.ENFORCER_HOST, port: config.ENFORCER_PORT }),
    () => finishRequests(enforcer, lastRequestsMs),
  )
  // Released first: goes on answering until load balancers have noticed that readiness failed.
  await life.acquire(
    'traffic',
    () => {},
    () => {
      grpc.leave()
      return delay(config.DRAIN_DELAY_MS)
    },
  )
  log.info(
    { url, grpcPort: grpc.port, ...(worker !== null && { worker, pid: process.pid }) },
    'listening',
  )
}

function redisOptionsOf(config: EnforcerConfig, log: Logger) {
  const target = redisTarget(config)
  return (use: string) => {
    const failures = createFailureLog({
      log,
      fields: { use },
      failedMessage: 'redis connection failed',
      succeededMessage: 'redis connected again',
    })
    return {
      ...target,
      name: `enforcer-${config.REGION}-${use}`,
      onError: (err: Error) => failures.failed(err),
      onReady: () => failures.succeeded(),
    }
  }
}

/**
 * Lets checks finish. A request that is still arriving after that is cut off: a caller that stopped half-way would
 * hold the process.
 */
async function finishRequests({ app }: Enforcer, withinMs: number): Promise<void> {
  const closed = app.close()
  const isClosed = closed.then(() => true)
  if (await Promise.race([isClosed, delay(withinMs, false)])) return
  app.server.closeAllConnections()
  await closed
}

/** An uncaught exception shuts the service down, with exit code 1. */
function stopOnBug(err: Error): void {
  queueMicrotask(() => {
    throw err
  })
}
