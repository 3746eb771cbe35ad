/**
 * What a sync daemon takes of a core: 100,000 active keys, one in a hundred hot, over real Redis and NATS.
 *
 * Run with `npm run bench:sync`; one JSON line. Two daemons run as processes of their own, as in production; this
 * process stands in for admin and makes the load of the first region: every key is checked, the hot ones for more than
 * their share. `coreRatio` is that daemon's processor time (user and system) over the time measured.
 */
import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { counterId, counterName, slotGroup } from '../../shared/core/counter-id.ts'
import type { GroupCheck, RegionPolicies } from '../../shared/core/ports.ts'
import { NatsLink } from '../../shared/nats/client.ts'
import { PolicyPublisher } from '../../shared/nats/policy-publisher.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createRedis } from '../../shared/redis/client.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { createLogger } from '../../shared/runtime/logger.ts'
import { freePorts } from '../support/free-ports.ts'
import { aPolicy, MemoryPlane } from '../support/memory-plane.ts'
import { startNats } from '../support/nats-server.ts'
import { startRedisServer } from '../support/redis-server.ts'

const ACTIVE_KEYS = 100_000
const HOT_KEYS = 1_000

/** Every key is checked once in so many turns, every hot key in each: 4,000 checks a second of hot ones. */
const TURN_MS = 250
const TURNS_PER_ROUND = 40

/** A hot key's check: 640 tokens a second where the region's own part is 600 of 1,000. */
const HOT_COST = 160

const SETTLE_MS = 20_000
const MEASURED_MS = 20_000
const PROBE_MS = 100
const REGIONS = ['us-east-1', 'eu-west-1'] as const

const log = createLogger({ service: 'bench', level: 'silent' })
const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url')

const closers: (() => unknown)[] = []
try {
  await main()
} finally {
  for (const close of closers.reverse()) await close()
}

async function main(): Promise<void> {
  const nats = await startNats()
  closers.push(() => nats.stop())
  const plane = new MemoryPlane(REGIONS)
  plane.put(aPolicy())
  const link = new NatsLink({ url: nats.url, name: 'bench-admin', log })
  closers.push(() => link.close())
  new PolicyPublisher({ link, source: plane, log })
  link.start()
  const [us] = await Promise.all(REGIONS.map((region) => startRegion(region, nats.url)))
  if (us === undefined) return
  const load = await startLoad(us.redisUrl)
  closers.push(() => load.stop())
  await delay(SETTLE_MS)
  const before = await us.metrics()
  const startMs = performance.now()
  await delay(MEASURED_MS)
  const after = await us.metrics()
  const seconds = (performance.now() - startMs) / 1_000
  const perSecond = (name: string): number =>
    Math.round((1_000 * (after(name) - before(name))) / seconds) / 1_000
  const line = {
    activeKeys: ACTIVE_KEYS,
    trackedKeys: after('quotaplane_tracked_keys'),
    checksPerSecond: Math.round(load.checksPerSecond()),
    coreRatio: perSecond('process_cpu_seconds_total'),
    bytesPerSecond: perSecond('quotaplane_records_sent_bytes_total'),
    recordsPerSecond: perSecond('quotaplane_records_sent_total'),
    residentMb: Math.round(after('process_resident_memory_bytes') / 1e6),
  }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

async function startRegion(region: string, natsUrl: string) {
  const redis = await startRedisServer()
  closers.push(() => redis.stop())
  const [port = 0] = await freePorts(1)
  const daemon = fork(join(PACKAGE_ROOT, 'dist/services/sync/main.js'), {
    stdio: 'ignore',
    env: {
      REGION: region,
      REDIS_URL: redis.url,
      NATS_URL: natsUrl,
      SYNC_HOST: '127.0.0.1',
      SYNC_PORT: String(port),
      LOG_LEVEL: 'error',
    },
  })
  closers.push(() => daemon.kill('SIGTERM'))
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    const isReady = await fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady) break
    await delay(PROBE_MS)
  }
  const metrics = async (): Promise<(name: string) => number> => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return (name) => sumOf(text, name)
  }
  return { redisUrl: redis.url, metrics }
}

/** All label sets of a metric added up. */
function sumOf(text: string, name: string): number {
  const lines = text.split('\n').filter((line) => new RegExp(`^${name}[{ ]`).test(line))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
}

async function startLoad(redisUrl: string) {
  const redis = createRedis({ url: redisUrl, name: 'bench-load', onError: () => {} })
  await new Promise((resolve) => redis.once('ready', resolve))
  const reader = createPolicyReader({ redis })
  const store = createCheckStore({ redis, deadlineMs: 10_000 })
  const policies = await reader.readAll()
  const checks = Array.from({ length: ACTIVE_KEYS }, (_, index) => checkOf(policies, index))
  const startedMs = performance.now()
  let [turn, done, isOver] = [0, 0, false]
  const running = (async () => {
    while (!isOver) {
      const due = startedMs + ++turn * TURN_MS
      const batch = checks.filter(
        (_, index) => index < HOT_KEYS || index % TURNS_PER_ROUND === turn % TURNS_PER_ROUND,
      )
      const results = await Promise.allSettled(
        batch.map((check) => store.check(check, policies.version)),
      )
      done += results.filter(({ status }) => status === 'fulfilled').length
      await delay(Math.max(0, due - performance.now()))
    }
  })()
  return {
    checksPerSecond: () => (1_000 * done) / (performance.now() - startedMs),
    async stop() {
      isOver = true
      await running
      redis.disconnect()
    },
  }
}

function checkOf(policies: RegionPolicies, index: number): GroupCheck {
  const [limit] = policies.policies[0]?.limits ?? []
  if (limit === undefined) throw new Error('the region has the policy')
  const entries = [{ key: 'tenant', value: `customer-${100_000 + index}` }]
  const group = slotGroup({ domain: 'api', entries })
  const { id: limitId, usageEpoch } = limit
  const counter = counterId({ group, limitId, usageEpoch, name: counterName(entries, sha256) })
  return { group, targets: [{ limit, counter }], cost: index < HOT_KEYS ? HOT_COST : 1 }
}
