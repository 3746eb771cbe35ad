import type { FastifyInstance } from 'fastify'
import { counter, gauge, histogram, type Registry } from '../../shared/runtime/metrics.ts'
import { type FactsBook, redisAheadMs } from './facts-book.ts'
import type { LiveView } from './live-view.ts'
import type { PlaneCache } from './plane-cache.ts'
import type { PlaneFollower } from './plane-follower.ts'

/** Requests touch one small database: slower than a second means that it is in trouble. */
const DURATION_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5]

const STREAM_ROUTE = '/v1/stream'

export type AdminMetrics = ReturnType<typeof createAdminMetrics>

/** Every metric of the admin service. Labels are bounded: routes, statuses, and regions that operators make. */
export function createAdminMetrics(registry: Registry) {
  return {
    requests: counter(registry, {
      name: 'quotaplane_admin_requests_total',
      help: 'HTTP requests answered.',
      labelNames: ['route', 'method', 'status'],
    }),
    duration: histogram(registry, {
      name: 'quotaplane_admin_request_duration_seconds',
      help: 'Time from a request to its answer.',
      labelNames: ['route', 'method'],
      buckets: DURATION_BUCKETS,
    }),
    questions: counter(registry, {
      name: 'quotaplane_admin_questions_total',
      help: 'Questions of regions over NATS.',
      labelNames: ['kind', 'outcome'],
    }),
    streamsEnded: counter(registry, {
      name: 'quotaplane_admin_streams_ended_total',
      help: 'Live streams that admin ended.',
      labelNames: ['reason'],
    }),
    streamsRefused: counter(registry, {
      name: 'quotaplane_admin_streams_refused_total',
      help: 'Live streams that were not opened, since a token, or all together, had as many as may be.',
      labelNames: ['reason'],
    }),
    records: counter(registry, {
      name: 'quotaplane_admin_records_total',
      help: 'Records of regions that arrived; refused ones are not counted into the views.',
      labelNames: ['outcome'],
    }),
  }
}

/** Gauges that are read off the service's state when they are scraped. */
export function observeState(
  registry: Registry,
  state: {
    readonly cache: PlaneCache
    readonly live: LiveView
    readonly follower: PlaneFollower
    readonly facts: Pick<FactsBook, 'of'>
    readonly stream: { readonly clients: number }
    readonly isBusUp: () => boolean
    readonly wallMs: () => number
  },
): void {
  const { cache, live, follower } = state
  readGauge(registry, 'quotaplane_admin_database_up', 'Whether Postgres answered last.', () =>
    Number(follower.isDatabaseUp()),
  )
  readGauge(
    registry,
    'quotaplane_admin_streams',
    'Live streams that are open.',
    () => state.stream.clients,
  )
  readGauge(registry, 'quotaplane_admin_bus_up', 'Whether NATS is connected.', () =>
    Number(state.isBusUp()),
  )
  readGauge(
    registry,
    'quotaplane_policy_revision',
    'Newest revision of the plane.',
    () => cache.revision,
  )
  readGauge(registry, 'quotaplane_open_epochs', 'Limits on the move to another base split.', () =>
    countOpenEpochs(cache),
  )
  const byRegion = (name: string, help: string, read: (region: string) => number | null): void => {
    gauge(registry, {
      name,
      help,
      labelNames: ['peer'],
      collect() {
        this.reset()
        for (const peer of cache.members) {
          const value = read(peer)
          if (value !== null) this.set({ peer }, value)
        }
      },
    })
  }
  byRegion(
    'quotaplane_region_record_age_seconds',
    'Age of the newest record of a region.',
    (region) => {
      const { ageMs } = live.health(region, state.wallMs())
      return ageMs === null ? null : ageMs / 1_000
    },
  )
  byRegion(
    'quotaplane_region_policy_revision',
    'Plane revision that a region has applied.',
    (region) => live.health(region, state.wallMs()).appliedRevision,
  )
  byRegion(
    'quotaplane_region_clock_ahead_seconds',
    "How far the clock of a region's Redis is ahead of this host's, at least.",
    (region) => {
      const aheadMs = redisAheadMs(state.facts.of(region, state.wallMs()))
      return aheadMs === null ? null : aheadMs / 1_000
    },
  )
}

/** Counts and times every request by its route, never by its path, which callers choose. */
export function measureRequests(app: FastifyInstance, metrics: AdminMetrics): void {
  app.addHook('onResponse', async (req, reply) => {
    const labels = { route: req.routeOptions.url ?? 'none', method: req.method }
    metrics.requests.inc({ ...labels, status: reply.statusCode })
    // A stream lasts as long as its client likes, which says nothing of this service.
    if (labels.route !== STREAM_ROUTE) metrics.duration.observe(labels, reply.elapsedTime / 1_000)
  })
}

function countOpenEpochs(cache: PlaneCache): number {
  let open = 0
  for (const policy of cache.policies) {
    open += policy.limits.filter((limit) => limit.previousBase !== null).length
  }
  return open
}

function readGauge(registry: Registry, name: string, help: string, read: () => number): void {
  gauge(registry, {
    name,
    help,
    collect() {
      this.set(read())
    },
  })
}
