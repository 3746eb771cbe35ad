import { randomUUID } from 'node:crypto'
import type { RegionStore } from '../../shared/core/ports.ts'
import type { NatsLink } from '../../shared/nats/client.ts'
import { NatsCountBus } from '../../shared/nats/count-bus.ts'
import { NatsFactsBus } from '../../shared/nats/facts-bus.ts'
import { NatsPolicyClient } from '../../shared/nats/policy-client.ts'
import { NatsRecordBus } from '../../shared/nats/record-bus.ts'
import { NatsRolloutBus } from '../../shared/nats/rollout-bus.ts'
import { createNatsLink, NATS_CERTIFICATES } from '../../shared/nats/settings.ts'
import { readRedisFacts } from '../../shared/redis/redis-facts.ts'
import { openRegionRedis } from '../../shared/redis/region-redis.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { REDIS_CERTIFICATES, redisTarget } from '../../shared/redis/settings.ts'
import { PACKAGE_VERSION } from '../../shared/runtime/assets.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { readEnvOrExit } from '../../shared/runtime/env.ts'
import { every } from '../../shared/runtime/every.ts'
import { keepCertificates } from '../../shared/runtime/keep-certificates.ts'
import { createLifecycle, runService } from '../../shared/runtime/lifecycle.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { createRegistry } from '../../shared/runtime/metrics.ts'
import { listenerNames } from '../../shared/runtime/tls.ts'
import { traceCalls } from '../../shared/runtime/tracing/calls.ts'
import { openTracing } from '../../shared/runtime/tracing/open.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import { warnOfUnknown } from '../../shared/runtime/unknown-settings.ts'
import { createSyncApp } from './app.ts'
import { assembleSync, type SyncService } from './assemble.ts'
import { type SyncConfig, syncEnv } from './config.ts'
import { FACTS_INTERVAL_MS, readFacts } from './facts.ts'
import { createSyncMetrics } from './metrics.ts'
import { createBusObserver } from './observe-bus.ts'
import { within } from './within.ts'

const config = readEnvOrExit(syncEnv, process.env, 'SYNC_')
const region = config.REGION
const log = createLogger({ service: 'sync', region, level: config.LOG_LEVEL })
const life = createLifecycle({ log, deadlineMs: config.SHUTDOWN_DEADLINE_MS })
warnOfUnknown(process.env, log)

/** What one closer may take of the deadline: five run one after the other, and Redis and NATS may both hang. */
const closerMs = config.SHUTDOWN_DEADLINE_MS / 6

const holder = `${region}.${randomUUID()}`

/** What a session asks of Redis; a tick begins a trace of its own, one in ten of them recorded. */
const REDIS_CALLS: ReadonlySet<string> = new Set([
  'open',
  'begin',
  'serve',
  'collect',
  'writePairs',
  'writeShares',
  'writePolicies',
  'addStock',
  'exchangeCounts',
])
const TICKS_TRACED = 0.1

await runService(life, log, async () => {
  const registry = createRegistry({ region }, true)
  const options = { config, service: 'sync', region, ratio: TICKS_TRACED, log, registry, life }
  const tracer = await openTracing({ ...options, closeMs: closerMs })
  const certificates = await keepCertificates({
    ...{ config, environment: process.env, log, life, registry, onBug: stopOnBug },
    uses: [listenerNames('SYNC'), REDIS_CERTIFICATES, NATS_CERTIFICATES],
  })
  const stores = certificates.over(config)
  const link = await life.acquire(
    'nats',
    () => createNatsLink(stores, { name: `sync-${region}`, region, log }),
    (open) => within(closerMs, open.close()),
  )
  const metrics = createSyncMetrics(registry, () => link.isConnected())
  const service = await life.acquire(
    'policies',
    () =>
      assembleSync({
        region,
        holder,
        bus: new NatsRecordBus(link, { region, ...createBusObserver(metrics, log) }),
        countBus: new NatsCountBus(link, region),
        policyClient: new NatsPolicyClient(link, sayRefusedHint, tracer),
        rolloutBus: new NatsRolloutBus(link),
        connect: () => connectStore(stores, tracer),
        clock: systemClock,
        log,
        metrics,
        tracer,
        onBug: stopOnBug,
      }),
    ({ loops }) => within(closerMs, Promise.all(loops.map((loop) => loop.stop()))),
  )
  await tellFacts(stores, link, service)
  link.onReconnect(() => service.feed.wantPull())
  await life.acquire(
    'daemon',
    () => service.daemon,
    (daemon) => daemon.stop(closerMs),
  )
  const app = await life.acquire(
    'listener',
    () =>
      createSyncApp({
        service,
        isBusConnected: () => link.isConnected(),
        clock: systemClock,
        isRunning: () => life.isRunning(),
        registry,
        log,
        tls: certificates.listener(),
      }),
    (open) => within(closerMs, open.close()),
  )
  link.start()
  service.daemon.start()
  const url = await app.listen({ host: config.SYNC_HOST, port: config.SYNC_PORT })
  log.info({ url }, 'listening')
})

function sayRefusedHint(err: unknown): void {
  log.warn({ err }, 'policy hint refused')
}

async function connectStore(stores: SyncConfig, tracer: Tracer | undefined): Promise<RegionStore> {
  const store = await connectRegionStore({
    ...redisTarget(stores),
    region,
    clock: systemClock,
    log,
  })
  if (tracer === undefined) return store
  return traceCalls(store, tracer, { names: REDIS_CALLS, system: 'redis' })
}

/** Over a connection of its own, so that a standby tells of the region's Redis as well. */
async function tellFacts(stores: SyncConfig, link: NatsLink, service: SyncService): Promise<void> {
  const bus = new NatsFactsBus(link)
  const redis = await life.acquire(
    'redis-facts',
    () =>
      openRegionRedis({
        ...redisTarget(stores),
        name: `sync-${region}-facts`,
        onError: (err) => log.debug({ err }, 'the connection that reads facts failed'),
        onReady: () => {
          // The next reading finds out.
        },
      }),
    (open) => open.disconnect(),
  )
  const source = {
    region,
    daemon: holder,
    version: PACKAGE_VERSION,
    service,
    clock: systemClock,
    natsVersion: () => bus.natsVersion,
    readRedis: () => readRedisFacts(redis),
  }
  const step = async (): Promise<void> => bus.publish(await readFacts(source))
  const times = { intervalMs: FACTS_INTERVAL_MS, timeoutMs: FACTS_INTERVAL_MS }
  await life.acquire(
    'facts',
    () => every({ name: 'facts', ...times, log, onBug: stopOnBug }, step),
    (open) => within(closerMs, open.stop()),
  )
}

/** An uncaught exception shuts the service down, with exit code 1. */
function stopOnBug(err: Error): void {
  queueMicrotask(() => {
    throw err
  })
}
