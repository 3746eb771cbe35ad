import type { Redis } from 'ioredis'
import { LeaseBook } from '../../services/enforcer/lease-book.ts'
import { createEnforcerMetrics } from '../../services/enforcer/metrics.ts'
import { PolicyCache } from '../../services/enforcer/policy-cache.ts'
import { RouteTable } from '../../services/enforcer/routes.ts'
import type { DecideContext } from '../../services/enforcer/slot-group.ts'
import { StoreGuard } from '../../services/enforcer/store-guard.ts'
import type { RegionPolicySpec } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createRedis } from '../../shared/redis/client.ts'
import { createLeaseStore } from '../../shared/redis/lease-store.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { createRegistry, type Registry } from '../../shared/runtime/metrics.ts'
import { type RedisServer, startRedisServer } from '../support/redis-server.ts'
import { PLAIN_LIMIT, PLAIN_POLICY } from '../support/region-policy.ts'

/** A deadline that only a hung run reaches: what is measured is speed, not outages. */
const PATIENT_MS = 10_000

/** A served Redis with its policies, and an enforcer's way of deciding in this process. */
export interface BenchRegion {
  readonly server: RedisServer
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

export async function startBenchRegion(
  ...policies: readonly RegionPolicySpec[]
): Promise<BenchRegion> {
  const server = await startRedisServer()
  await serve(server.url, policies)
  const own = createRedis({ url: server.url, name: 'bench', onError: () => {} })
  const redis = createRedis({ url: server.url, name: 'peer', onError: () => {} })
  const log = createLogger({ service: 'bench', region: 'here', level: 'silent' })
  const registry = createRegistry({ region: 'here' }, false)
  const metrics = createEnforcerMetrics(registry)
  const cache = new PolicyCache({
    reader: createPolicyReader({ redis: own }),
    clock: systemClock,
    log,
  })
  const context = {
    store: createCheckStore({ redis: own, deadlineMs: PATIENT_MS }),
    policies: cache,
    routes: new RouteTable(metrics.cellsOf),
    guard: new StoreGuard({ clock: systemClock, onChange: () => {} }),
    metrics,
    leases: new LeaseBook({
      store: createLeaseStore({ redis: own }),
      clock: systemClock,
      owner: 'bench',
    }),
  }
  await Promise.all([own, redis].map((one) => new Promise((resolve) => one.once('ready', resolve))))
  await cache.pollOnce()
  return {
    server,
    redis,
    registry,
    context,
    async stop() {
      own.disconnect()
      redis.disconnect()
      await server.stop()
    },
  }
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
