import { join } from 'node:path'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import type { NatsLink } from '../../shared/nats/client.ts'
import { NatsFactsBus } from '../../shared/nats/facts-bus.ts'
import { PolicyPublisher } from '../../shared/nats/policy-publisher.ts'
import { NatsRecordBus } from '../../shared/nats/record-bus.ts'
import { NatsRolloutBus } from '../../shared/nats/rollout-bus.ts'
import { createNatsLink, NATS_CERTIFICATES } from '../../shared/nats/settings.ts'
import { createDatabase } from '../../shared/postgres/client.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import { DATABASE_CERTIFICATES, databaseTarget } from '../../shared/postgres/settings.ts'
import type { Tables } from '../../shared/postgres/tables.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { readEnvOrExit } from '../../shared/runtime/env.ts'
import { type EveryOptions, every } from '../../shared/runtime/every.ts'
import { keepCertificates } from '../../shared/runtime/keep-certificates.ts'
import { createLifecycle, type Lifecycle, runService } from '../../shared/runtime/lifecycle.ts'
import { createLogger, type Logger } from '../../shared/runtime/logger.ts'
import { createRegistry } from '../../shared/runtime/metrics.ts'
import { listenerNames } from '../../shared/runtime/tls.ts'
import { openTracing } from '../../shared/runtime/tracing/open.ts'
import { warnOfUnknown } from '../../shared/runtime/unknown-settings.ts'
import type { AccessOptions } from './access/authenticate.ts'
import { createJwtVerifier } from './access/jwt.ts'
import { TokenBook } from './access/token-book.ts'
import { Announcing } from './announcing.ts'
import { createAdminApp } from './app.ts'
import { type AdminConfig, adminEnv } from './config.ts'
import { serveDashboard } from './dashboard.ts'
import { FactsBook } from './facts-book.ts'
import { HISTORY_INTERVAL_MS, HistoryWriter } from './history/history-writer.ts'
import { createListening } from './listening.ts'
import { LiveView } from './live-view.ts'
import { type AdminMetrics, createAdminMetrics, observeState } from './metrics.ts'
import { PlaneCache } from './plane-cache.ts'
import { PlaneFollower } from './plane-follower.ts'
import { createPolicySource } from './policy-source.ts'
import { RolloutView } from './rollout-view.ts'
import { STREAM_INTERVAL_MS, StreamHub } from './stream/stream-hub.ts'

/** How often the revision is read and announced; a change of our own is announced at once. */
const FOLLOW_INTERVAL_MS = 1_000

/** How exact the time of a token's last use is. */
const TOKEN_USE_INTERVAL_MS = 30_000

const CERTIFICATES = {
  environment: process.env,
  uses: [listenerNames('ADMIN'), DATABASE_CERTIFICATES, NATS_CERTIFICATES],
}

/** Every change is traced; and what a collector that hangs may hold the process for. */
const TRACING = { service: 'admin', ratio: 1, closeMs: 500 }

/** Longer than any query may take, so that a step ends by its own failure, which says more. */
const FOLLOW_TIMEOUT_MS = 30_000

const config = readEnvOrExit(adminEnv, process.env, 'ADMIN_')
const log = createLogger({ service: 'admin', level: config.LOG_LEVEL })
const life = createLifecycle({ log, deadlineMs: config.SHUTDOWN_DEADLINE_MS })
warnOfUnknown(process.env, log)
await runService(life, log, () => start(config, log, life))

async function start(config: AdminConfig, log: Logger, life: Lifecycle): Promise<void> {
  const registry = createRegistry({ service: 'admin' }, true)
  const metrics = createAdminMetrics(registry)
  const tracer = await openTracing({ config, ...TRACING, log, registry, life })
  const kept = { ...CERTIFICATES, config, log, life, registry, onBug: stopOnBug }
  const certificates = await keepCertificates(kept)
  const { db, link } = await openStores(certificates.over(config), log, life)
  const tokens = new TokenBook(db, wallMs)
  const cache = new PlaneCache(wallMs)
  const live = new LiveView()
  const parts = { db, cache, live, log, wallMs, monotonicMs }
  const publisher = new PolicyPublisher({
    link,
    log,
    source: createPolicySource({ ...parts, listeningMs: createListening(link, monotonicMs) }),
    onAnswer: (kind, outcome) => metrics.questions.inc({ kind, outcome }),
    tracer,
  })
  const announcing = new Announcing(publisher, tracer, () => loop.wake())
  const { announce } = announcing
  const migrations = join(PACKAGE_ROOT, 'migrations')
  const follower = new PlaneFollower({ ...parts, migrations, announce })
  const repeat = repeater(life, log)
  const loop = await repeat('follow-plane', FOLLOW_INTERVAL_MS, () => follower.stepOnce())
  await repeat('note-token-use', TOKEN_USE_INTERVAL_MS, () => tokens.noteUses())
  await keepHistory(life, repeat, { db, live, follower })
  hearRecords(link, metrics, (record) => (follower.hear(record) ? loop.wake() : undefined))
  const heard = { rollouts: hearRollouts(link, cache), facts: hearFacts(link, cache) }
  const isBusUp = (): boolean => link.isConnected()
  const states = { isBusUp, isDatabaseUp: () => follower.isDatabaseUp() }
  const counts = countStreams(metrics)
  const stream = new StreamHub({ cache, live, ...heard, wallMs, ...counts, ...states })
  await repeat('stream', STREAM_INTERVAL_MS, () => stream.tickOnce())
  observeState(registry, { cache, live, follower, facts: heard.facts, stream, isBusUp, wallMs })
  const shared = { db, cache, live, ...heard, stream, ...states, wallMs, log, registry, metrics }
  const app = await createAdminApp({
    ...shared,
    access: {
      planeToken: config.QUOTAPLANE_ADMIN_TOKEN ?? null,
      tokens,
      verifyJwt: verifierOf(config),
    },
    tls: certificates.listener(),
    requestsPerSecondMax: config.ADMIN_REQUESTS_PER_SECOND_MAX,
    onChange: announcing.changed,
    tracer,
    isRunning: () => life.isRunning(),
    isPrepared: () => follower.isPrepared(),
    checks: [
      { name: 'postgres', isRequired: true, isReady: () => follower.isDatabaseUp() },
      { name: 'nats', isRequired: false, isReady: isBusUp },
    ],
  })
  await serveDashboard(app, join(PACKAGE_ROOT, 'dist/services/dashboard'))
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

function countStreams(metrics: AdminMetrics) {
  return {
    onEnd: (reason: string): void => metrics.streamsEnded.inc({ reason }),
    onRefusal: (reason: string): void => metrics.streamsRefused.inc({ reason }),
  }
}

async function openStores(config: AdminConfig, log: Logger, life: Lifecycle) {
  const db = await life.acquire(
    'postgres',
    () =>
      createDatabase<Tables>({
        ...databaseTarget(config),
        onIdleError: (err) => log.warn({ err }, 'an idle Postgres connection failed'),
      }),
    (open) => open.destroy(),
  )
  const link = await life.acquire(
    'nats',
    () => createNatsLink(config, { name: 'quotaplane-admin', log }),
    (open) => open.close(),
  )
  return { db, link }
}

function repeater(life: Lifecycle, log: Logger) {
  return (name: string, intervalMs: number, step: () => Promise<void>) =>
    life.acquire(
      name,
      () => every(loopOptions(log, name, intervalMs), step),
      (open) => open.stop(),
    )
}

/** Writes the history of usage now and then, and what was counted last once its loop has stopped. */
async function keepHistory(
  life: Lifecycle,
  repeat: ReturnType<typeof repeater>,
  { db, live, follower }: { db: Db; live: LiveView; follower: PlaneFollower },
): Promise<void> {
  const writer = new HistoryWriter({ db, history: live.history, wallMs })
  const write = async (): Promise<void> => {
    // Nothing can be written before the schema is there.
    if (follower.isPrepared()) await writer.writeOnce()
  }
  await life.acquire('usage-history', () => write, write)
  await repeat('write-usage-history', HISTORY_INTERVAL_MS, write)
}

function verifierOf(config: AdminConfig): AccessOptions['verifyJwt'] {
  const { OIDC_ISSUER: issuer, OIDC_AUDIENCE: audience, OIDC_JWKS_URL: jwksUrl } = config
  if (issuer === undefined || audience === undefined || jwksUrl === undefined) return null
  return createJwtVerifier({ issuer, audience, jwksUrl })
}

function wallMs(): number {
  return systemClock.wallMs()
}

function monotonicMs(): number {
  return systemClock.monotonicMs()
}

function loopOptions(log: Logger, name: string, intervalMs: number): EveryOptions {
  return {
    name,
    intervalMs,
    timeoutMs: FOLLOW_TIMEOUT_MS,
    log,
    onBug: stopOnBug,
  }
}

/** An uncaught exception shuts the service down, with exit code 1. */
function stopOnBug(err: Error): void {
  throw err
}

function hearRollouts(link: NatsLink, cache: PlaneCache): RolloutView {
  const rollouts = new RolloutView()
  const bus = new NatsRolloutBus(link)
  bus.onReport((report) => rollouts.hear(report, cache.members, wallMs()))
  return rollouts
}

function hearFacts(link: NatsLink, cache: PlaneCache): FactsBook {
  const facts = new FactsBook()
  new NatsFactsBus(link).onFacts((told) => facts.hear(told, cache.members, wallMs()))
  return facts
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
