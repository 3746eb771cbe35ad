import type { Redis } from 'ioredis'
import { DENIALS_TICK_MS, DeniedKeys } from '../../services/enforcer/denied-keys.ts'
import { LEASE_TICK_MS, LeaseBook } from '../../services/enforcer/lease-book.ts'
import { createEnforcerMetrics } from '../../services/enforcer/metrics.ts'
import { PolicyCache } from '../../services/enforcer/policy-cache.ts'
import { RouteTable } from '../../services/enforcer/routes.ts'
import type { DecideContext } from '../../services/enforcer/slot-group.ts'
import { StoreGuard } from '../../services/enforcer/store-guard.ts'
import type { RegionPolicySpec } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createRedis } from '../../shared/redis/client.ts'
import { createDenialLog } from '../../shared/redis/denial-log.ts'
import { createLeaseStore } from '../../shared/redis/lease-store.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { listenForNews } from '../../shared/redis/region-news.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { every, type Loop } from '../../shared/runtime/every.ts'
import { createLogger, type Logger } from '../../shared/runtime/logger.ts'
import { createRegistry, type Registry } from '../../shared/runtime/metrics.ts'
import { freePorts } from '../support/free-ports.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from '../support/region-policy.ts'

/** A deadline that only a hung run reaches: what is measured is speed, not outages. */
const PATIENT_MS = 10_000

/** Far above what a step takes, so that only a bug reaches it. */
const STEP_MS = 10_000

/** A served Redis with one policy, and an enforcer's way of deciding in this process, its loops running. */
export interface BenchRegion {
  /** Of Redis, by the transport of the bench. */
  readonly url: string
  /** A connection of its own for whatever is measured beside. */
  readonly redis: Redis
  readonly registry: Registry
  readonly context: DecideContext
  stop(): Promise<void>
}

/** A token bucket per tenant; enough for a tenant not to be denied by one round. */
export const PER_TENANT: RegionPolicySpec = bucketPolicy(100, 60_000)

/** A token bucket for each value of `tenant`. */
export function bucketPolicy(capacity: number, windowMs: number): RegionPolicySpec {
  const limit = {
    id: 1,
    name: 'bench',
    algorithm: 'token_bucket',
    ...PLAIN_LIMIT,
    usageEpoch: 0,
    capacity,
    windowMs,
    burst: capacity,
    home: POOL_UNITS,
  } as const
  return {
    id: 1,
    domain: 'api',
    name: 'per-tenant',
    revision: 1,
    ...PLAIN_POLICY,
    match: [{ key: 'tenant' }],
    onStoreFailure: 'deny',
    limits: [limit],
  }
}

/** Settings of an enforcer process over a region's Redis. Nothing but a hung run is late enough to be given up. */
export function enforcerEnv({ url }: BenchRegion): Readonly<Record<string, string | undefined>> {
  return {
    PATH: process.env['PATH'],
    REGION: 'here',
    REDIS_URL: url,
    REDIS_DEADLINE_MS: '1000',
    ENFORCER_PORT: '0',
    ENFORCER_GRPC_PORT: '0',
  }
}

/** How all of a bench reach Redis, ours and the peer. */
export type Transport = 'tcp' | 'socket'

/** Over TCP, as a region's services reach its Redis. */
export function startBenchRegion(...policies: readonly RegionPolicySpec[]): Promise<BenchRegion> {
  return startBenchRegionOver('tcp', policies)
}

export async function startBenchRegionOver(
  transport: Transport,
  policies: readonly RegionPolicySpec[],
): Promise<BenchRegion> {
  const [port = 0] = await freePorts(1)
  const server = await startRedisServer({ port })
  await serve(server.url, policies)
  const url = transport === 'tcp' ? `redis://127.0.0.1:${port}` : server.url
  const clients = ['checks', 'peer', 'news'].map((name) =>
    createRedis({ url, name, onError: () => {} }),
  )
  const [own, redis, news] = clients
  if (own === undefined || redis === undefined || news === undefined)
    throw new Error('three are made')
  const log = createLogger({ service: 'bench', region: 'here', level: 'silent' })
  const registry = createRegistry({ region: 'here' }, false)
  const metrics = createEnforcerMetrics(registry)
  const clock = systemClock
  const cache = new PolicyCache({ reader: createPolicyReader({ redis: own }), clock, log })
  const leases = new LeaseBook({ store: createLeaseStore({ redis: own }), clock, owner: 'bench' })
  const denied = new DeniedKeys({ log: createDenialLog({ redis: own }), clock })
  const context = {
    store: createCheckStore({ redis: own, deadlineMs: PATIENT_MS }),
    policies: cache,
    routes: new RouteTable(metrics.cellsOf),
    guard: new StoreGuard({ clock, onChange: () => {} }),
    metrics,
    leases,
    denied,
  }
  hearNews(news, denied)
  await Promise.all(clients.map((one) => new Promise((resolve) => one.once('ready', resolve))))
  await cache.pollOnce()
  const loops = [
    repeat('leases', log, LEASE_TICK_MS, () => leases.tick()),
    repeat('denials', log, DENIALS_TICK_MS, () => denied.countOnce()),
  ]
  return {
    url,
    redis,
    registry,
    context,
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await leases.close()
      for (const client of clients) client.disconnect()
      await server.stop()
    },
  }
}

function hearNews(news: Redis, denied: DeniedKeys): void {
  listenForNews(news, {
    grown: (counter) => denied.grown(counter),
    policiesChanged: () => denied.forgetAll(),
    heard: () => denied.hear(true),
    silent: () => denied.hear(false),
  })
}

/** As the enforcer's own process repeats it. */
function repeat(name: string, log: Logger, intervalMs: number, step: () => Promise<void>): Loop {
  const onBug = (err: Error): void => {
    throw err
  }
  return every({ name, intervalMs, timeoutMs: STEP_MS, log, onBug }, step)
}

/** What a sync daemon does at its start. */
async function serve(url: string, region: readonly RegionPolicySpec[]): Promise<void> {
  const daemon = await connectRegionStore({ url, region: 'here', clock: systemClock })
  await daemon.open()
  await daemon.begin({ incarnation: 1, levels: 'full', recovering: false })
  const change = { revision: 1, members: ['here'], plane: [], region }
  await daemon.writePolicies({ ...change, recovering: false })
  await daemon.serve()
  await daemon.close()
}
