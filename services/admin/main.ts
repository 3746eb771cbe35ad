import { join } from 'node:path'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import { NatsLink } from '../../shared/nats/client.ts'
import { PolicyPublisher } from '../../shared/nats/policy-publisher.ts'
import { NatsRecordBus } from '../../shared/nats/record-bus.ts'
import { createDatabase } from '../../shared/postgres/client.ts'
import type { Tables } from '../../shared/postgres/tables.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { readEnvOrExit } from '../../shared/runtime/env.ts'
import { type EveryOptions, every } from '../../shared/runtime/every.ts'
import { createLifecycle, type Lifecycle, runService } from '../../shared/runtime/lifecycle.ts'
import { createLogger, type Logger } from '../../shared/runtime/logger.ts'
import { createRegistry } from '../../shared/runtime/metrics.ts'
import { createAdminApp } from './app.ts'
import { type AdminConfig, adminEnv } from './config.ts'
import { LiveView } from './live-view.ts'
import { type AdminMetrics, createAdminMetrics, observeState } from './metrics.ts'
import { PlaneCache } from './plane-cache.ts'
import { PlaneFollower } from './plane-follower.ts'
import { createPolicySource } from './policy-source.ts'

/** How often the revision is read and announced; a change of our own is announced at once. */
const FOLLOW_INTERVAL_MS = 1_000

/** Longer than any query may take, so that a step ends by its own failure, which says more. */
const FOLLOW_TIMEOUT_MS = 30_000

const config = readEnvOrExit(adminEnv, process.env)
const log = createLogger({ service: 'admin', level: config.LOG_LEVEL })
const life = createLifecycle({ log, deadlineMs: config.SHUTDOWN_DEADLINE_MS })
await runService(life, log, () => start(config, log, life))

async function start(config: AdminConfig, log: Logger, life: Lifecycle): Promise<void> {
  const registry = createRegistry({ service: 'admin' }, true)
  const metrics = createAdminMetrics(registry)
  const db = await life.acquire(
    'postgres',
    () => createDatabase<Tables>({ url: config.DATABASE_URL, onIdleError: logIdleError }),
    (open) => open.destroy(),
  )
  const link = await life.acquire(
    'nats',
    () => new NatsLink({ url: config.NATS_URL, name: 'quotaplane-admin', log }),
    (open) => open.close(),
  )
  const cache = new PlaneCache()
  const live = new LiveView()
  const publisher = new PolicyPublisher({
    link,
    log,
    source: createPolicySource(db, wallMs, live),
    onAnswer: (kind, outcome) => metrics.questions.inc({ kind, outcome }),
  })
  const announce = (revision: number): void => publisher.announce(revision)
  const migrations = join(PACKAGE_ROOT, 'migrations')
  const follower = new PlaneFollower({ db, cache, live, log, wallMs, migrations, announce })
  const loop = await life.acquire(
    'plane follower',
    () => every(loopOptions(log), () => follower.stepOnce()),
    (open) => open.stop(),
  )
  hearRecords(link, metrics, (record) => {
    if (follower.hear(record)) loop.wake()
  })
  const isBusUp = (): boolean => link.isConnected()
  observeState(registry, { cache, live, follower, isBusUp, wallMs })
  const shared = { db, cache, live, wallMs, log, registry, metrics }
  const app = await createAdminApp({
    ...shared,
    token: config.QUOTAPLANE_ADMIN_TOKEN,
    onChange: () => loop.wake(),
    isRunning: () => life.isRunning(),
    isPrepared: () => follower.isPrepared(),
    checks: [
      { name: 'postgres', isRequired: true, isReady: () => follower.isDatabaseUp() },
      { name: 'nats', isRequired: false, isReady: isBusUp },
    ],
  })
  await life.acquire(
    'http',
    () => app,
    (open) => open.close(),
  )
  // What was announced meanwhile is lost.
  link.onReconnect(() => loop.wake())
  link.start()
  loop.wake()
  const url = await app.listen({ host: config.ADMIN_HOST, port: config.ADMIN_PORT })
  log.info({ url }, 'admin is listening')
}

function wallMs(): number {
  return systemClock.wallMs()
}

function logIdleError(err: Error): void {
  log.warn({ err }, 'an idle Postgres connection failed')
}

function loopOptions(log: Logger): EveryOptions {
  return {
    name: 'follow-plane',
    intervalMs: FOLLOW_INTERVAL_MS,
    timeoutMs: FOLLOW_TIMEOUT_MS,
    log,
    onBug: (err) => {
      throw err
    },
  }
}

function hearRecords(
  link: NatsLink,
  metrics: AdminMetrics,
  hear: (record: RegionRecord) => void,
): void {
  const bus = new NatsRecordBus(link, {
    region: null,
    onRefused: (region, outcome, detail) => {
      metrics.records.inc({ outcome })
      log.debug({ region, outcome, detail }, 'record refused')
    },
  })
  bus.onRecord((record) => {
    metrics.records.inc({ outcome: 'accepted' })
    hear(record)
  })
}
