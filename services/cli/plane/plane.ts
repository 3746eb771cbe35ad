import { randomBytes } from 'node:crypto'
import { AdminClient } from '../admin-client.ts'
import { type Links, openLinks } from './links.ts'
import type { PortChoice } from './ports.ts'
import { type PostgresServer, startPostgres } from './postgres.ts'
import { findServers, type ServerPaths } from './programs.ts'
import { registerRegions } from './register.ts'
import { type Launch, startNats, startRedis } from './servers.ts'
import { startService, whenReady } from './services.ts'
import { allOrFirstFailure, startTogether } from './together.ts'
import type { Plane, RunningRegion } from './topology.ts'

/** A first start on a slow machine takes some seconds; a region that recovers takes about eleven. */
const READY_TIMEOUT_MS = 60_000

export interface PlaneOptions {
  readonly regions: readonly string[]
  /** One-way delay put between every two regions. */
  readonly linkDelayMs: number
  /** An operator's database; null starts a PostgreSQL of the plane's own. */
  readonly databaseUrl: string | null
  readonly ports: PortChoice
  /** The environment that children inherit. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Progress, one line each, for people. */
  readonly say: (line: string) => void
  /** Abandons a start under way. */
  readonly signal: AbortSignal
}

/**
 * Brings up a whole plane on this machine and resolves once every part is ready.
 *
 * A start that fails or is abandoned leaves nothing behind; the rejection says which part failed and shows the
 * end of its log. If this process is killed, the guard ends the children and removes the files.
 */
export async function startPlane(options: PlaneOptions): Promise<Plane> {
  const { env, say } = options
  const servers = await findServers({ env, isRoot: process.getuid?.() === 0, say })
  const links = await openLinks(options.regions, options.linkDelayMs)
  const together = { ...options, folder: null, close: () => links.close() }
  const started = await startTogether(together, (launch) =>
    startParts(launch, servers, links, options),
  )
  return { ...started, links }
}

async function startParts(
  launch: Launch,
  paths: ServerPaths,
  links: Links,
  options: PlaneOptions,
): Promise<Pick<Plane, 'admin' | 'postgres' | 'regions'>> {
  const { regions, say } = options
  say(`Starting Redis and NATS for ${regions.join(', ')}, and PostgreSQL`)
  const [postgres, backends] = await allOrFirstFailure([
    startDatabase(launch, options.databaseUrl),
    allOrFirstFailure(regions.map((region) => startBackend(launch, paths, links, region, regions))),
  ])
  await links.whenConnected(READY_TIMEOUT_MS, options.signal)
  say('Starting admin')
  const admin = await startAdmin(launch, postgres, backends)
  await whenReady(admin, READY_TIMEOUT_MS, options.signal)
  const client = new AdminClient({ ...admin, signal: options.signal })
  await registerRegions(client, regions)
  say('Starting an enforcer and a sync daemon in each region')
  const running = await allOrFirstFailure(
    backends.map((backend) => startRegion(launch, backend, admin.token)),
  )
  await allOrFirstFailure(
    running
      .flatMap(({ sync, enforcers }) => [sync, ...enforcers])
      .map((service) => whenReady(service, READY_TIMEOUT_MS, options.signal)),
  )
  return { admin, postgres, regions: running }
}

type Backend = Pick<RunningRegion, 'region' | 'redis' | 'nats'>

async function startBackend(
  launch: Launch,
  paths: ServerPaths,
  links: Links,
  region: string,
  regions: readonly string[],
): Promise<Backend> {
  const peers = regions.filter((peer) => peer !== region)
  const [redis, nats] = await allOrFirstFailure([
    startRedis(launch, paths['redis-server'], region),
    startNats(launch, paths['nats-server'], region, peers, links),
  ])
  return { region, redis, nats }
}

async function startDatabase(launch: Launch, url: string | null): Promise<PostgresServer> {
  return url === null ? startPostgres(launch) : { url, child: null }
}

async function startAdmin(
  launch: Launch,
  postgres: PostgresServer,
  backends: readonly Backend[],
): Promise<Plane['admin']> {
  const token = randomBytes(24).toString('base64url')
  const service = await startService(launch, {
    service: 'admin',
    name: 'admin',
    usualPort: 7070,
    env: {
      DATABASE_URL: postgres.url,
      // Any one of them will do, so that admin goes on hearing the regions when one is gone.
      NATS_URL: backends.map(({ nats }) => nats.url).join(','),
      QUOTAPLANE_ADMIN_TOKEN: token,
    },
  })
  return { ...service, token }
}

/** On one machine, who may use the plane may see its decisions. */
async function startRegion(
  launch: Launch,
  backend: Backend,
  token: string,
): Promise<RunningRegion> {
  const { region, redis, nats } = backend
  const [enforcer, sync] = await allOrFirstFailure([
    startService(launch, {
      service: 'enforcer',
      name: `enforcer of ${region}`,
      usualPort: 8080,
      usualGrpcPort: 8081,
      // Everything runs on one machine here, where Redis may have to wait for a processor.
      env: {
        REGION: region,
        REDIS_URL: redis.url,
        REDIS_DEADLINE_MS: '250',
        ENFORCER_DEBUG_TOKEN: token,
      },
    }),
    startService(launch, {
      service: 'sync',
      name: `sync daemon of ${region}`,
      usualPort: 7080,
      env: { REGION: region, REDIS_URL: redis.url, NATS_URL: nats.url },
    }),
  ])
  return { ...backend, enforcers: [enforcer], sync }
}
