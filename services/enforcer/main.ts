import { hostname } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { DRAFT_HEADERS, parseHeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createRedis } from '../../shared/redis/client.ts'
import { createEnforcerRoll } from '../../shared/redis/enforcer-roll.ts'
import { createLeaseStore } from '../../shared/redis/lease-store.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { readEnvOrExit } from '../../shared/runtime/env.ts'
import { createFailureLog } from '../../shared/runtime/failure-log.ts'
import { createLifecycle, runService } from '../../shared/runtime/lifecycle.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { createRegistry } from '../../shared/runtime/metrics.ts'
import { enforcerEnv } from './config.ts'
import { createEnforcer, type Enforcer } from './enforcer.ts'

/** What answering the last checks takes beyond the wait for Redis, on a busy host. */
const ANSWERING_MS = 1_000

/** How long taking leave of Redis may take, one step; when it hangs, leases and the roll end by themselves. */
const LEAVING_MS = 250

const config = readEnvOrExit(enforcerEnv, process.env)
const sender = {
  trustedHops: config.TRUSTED_PROXY_HOPS,
  ipv6Prefix: config.SENDER_NETWORK_BITS,
}
const lastRequestsMs = config.REDIS_DEADLINE_MS + ANSWERING_MS
const log = createLogger({ service: 'enforcer', region: config.REGION, level: config.LOG_LEVEL })
const life = createLifecycle({ log, deadlineMs: config.SHUTDOWN_DEADLINE_MS })

await runService(life, log, async () => {
  // Nothing is waited for: commands in flight belong to checks, which have been answered by then.
  const redis = await life.acquire('redis', connect, (client) => client.disconnect())
  const loopStalls = { count: 0 }
  const enforcer = createEnforcer({
    region: config.REGION,
    name: `${hostname()}:${config.ENFORCER_PORT}`,
    store: createCheckStore({
      redis,
      deadlineMs: config.REDIS_DEADLINE_MS,
      onStall: () => loopStalls.count++,
    }),
    leaseStore: createLeaseStore({ redis }),
    roll: createEnforcerRoll({ redis }),
    reader: createPolicyReader({ redis }),
    clock: systemClock,
    log,
    registry: createRegistry({ region: config.REGION }, true),
    loopStalls,
    isRunning: () => life.isRunning(),
    headers: parseHeaderChoice(config.RATE_LIMIT_HEADERS) ?? DRAFT_HEADERS,
    sender,
  })
  await life.acquire(
    'roll',
    () => enforcer.keepOnRoll(stopOnBug),
    async (loop) => {
      await Promise.race([loop.stop(), delay(LEAVING_MS)])
      await Promise.race([enforcer.leave(), delay(LEAVING_MS)])
    },
  )
  await life.acquire(
    'leases',
    () => enforcer.keepLeases(stopOnBug),
    async (loop) => {
      // A Redis that hangs must not hold the process: blocks end by themselves.
      await Promise.race([enforcer.giveUpLeases(), delay(LEAVING_MS)])
      await Promise.race([loop.stop(), delay(LEAVING_MS)])
    },
  )
  await life.acquire(
    'policies',
    () => enforcer.followPolicies(stopOnBug),
    (loop) => loop.stop(),
  )
  const grpc = await life.acquire(
    'grpc listener',
    () => enforcer.listenGrpc(config.ENFORCER_HOST, config.ENFORCER_GRPC_PORT),
    (listener) => listener.drain(lastRequestsMs),
  )
  const url = await life.acquire(
    'listener',
    () => enforcer.app.listen({ host: config.ENFORCER_HOST, port: config.ENFORCER_PORT }),
    () => finishRequests(enforcer),
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
  log.info({ url, grpcPort: grpc.port }, 'listening')
})

function connect(): Redis {
  const failures = createFailureLog({
    log,
    fields: {},
    failedMessage: 'redis connection failed',
    succeededMessage: 'redis connected again',
  })
  const redis = createRedis({
    url: config.REDIS_URL,
    name: `enforcer-${config.REGION}`,
    onError: (err) => failures.failed(err),
  })
  redis.on('ready', () => failures.succeeded())
  return redis
}

/**
 * Lets checks finish. A request that is still arriving after that is cut off: a caller that stopped half-way would
 * hold the process.
 */
async function finishRequests({ app }: Enforcer): Promise<void> {
  const closed = app.close()
  const isClosed = closed.then(() => true)
  if (await Promise.race([isClosed, delay(lastRequestsMs, false)])) return
  app.server.closeAllConnections()
  await closed
}

/** An uncaught exception shuts the service down, with exit code 1. */
function stopOnBug(err: Error): void {
  queueMicrotask(() => {
    throw err
  })
}
