/** The plane of a topology, as processes of this machine. */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { prepareServiceDatabase } from '../../../shared/postgres/service-database.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { AdminClient } from '../admin-client.ts'
import { addKeys, addLaterKeys, hasKeys, withoutKeys, writeKeys } from '../keys/write-keys.ts'
import type { PortChoice } from '../plane/ports.ts'
import { type PostgresServer, startPostgres } from '../plane/postgres.ts'
import { findServers, type ServerPaths } from '../plane/programs.ts'
import { registerRegions } from '../plane/register.ts'
import type { Launch, NatsServer, RedisServer } from '../plane/servers.ts'
import { startService, whenReady } from '../plane/services.ts'
import { allOrFirstFailure, startTogether, type Together } from '../plane/together.ts'
import type { PlaneParts, RunningRegion, RunningService } from '../plane/topology.ts'
import { startNatsMesh, startRedis } from './servers.ts'
import type { Topology, TopologyRegion } from './topology-file.ts'

/** As of `startPlane`: a region that recovers takes about eleven seconds. */
const READY_TIMEOUT_MS = 60_000

/** As in the compose file. */
const SERVICE_ROLE = 'quotaplane_service'
const SERVICE_PASSWORD_BYTES = 16

export interface DeploymentOptions {
  readonly topology: Topology
  /** Where data and keys go and stay; null takes a folder that goes with the plane. */
  readonly folder: string | null
  readonly databaseUrl: string | null
  readonly ports: PortChoice
  readonly env: Readonly<Record<string, string | undefined>>
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

export type Deployment = PlaneParts & Together

/** Brings the plane up, and resolves once every part is ready. As of `startPlane`, a failed start leaves nothing. */
export async function startDeployment(options: DeploymentOptions): Promise<Deployment> {
  const { env, say } = options
  const programs = await findServers({ env, isRoot: process.getuid?.() === 0, say })
  return startTogether(options, (launch) => startParts(launch, programs, options))
}

async function startParts(
  launch: Launch,
  programs: ServerPaths,
  options: DeploymentOptions,
): Promise<PlaneParts> {
  const { topology, say, signal } = options
  const names = topology.regions.map(({ name }) => name)
  const keys = join(launch.folder, 'keys')
  const hosts = new Map(names.map((name) => [name, ['127.0.0.1']]))
  if (await hasKeys(keys)) {
    await addLaterKeys(keys, hosts)
    await addKeys(keys, await withoutKeys(keys, names), hosts)
  } else await writeKeys(keys, names, hosts)
  say(`Starting Redis and NATS for ${names.join(', ')}, and PostgreSQL`)
  const { databaseUrl } = options
  const isKept = options.folder !== null
  const program = programs['redis-server']
  const [postgres, nats, redis] = await allOrFirstFailure([
    startDatabase(launch, databaseUrl, isKept),
    startNatsMesh(launch, programs['nats-server'], topology),
    allOrFirstFailure(
      names.map((region) => startRedis(launch, { program, config: topology.redis, region, keys })),
    ),
  ])
  say(`Starting ${topology.admins} admins`)
  // A database of the operator's is used as the operator says.
  const database = postgres.child === null ? postgres.url : await asService(postgres.url)
  const admins = await startAdmins(launch, { topology, keys, database, nats })
  await allOrFirstFailure(admins.map((admin) => whenReady(admin, READY_TIMEOUT_MS, signal)))
  const [first, ...otherAdmins] = admins
  if (first === undefined) throw new Error('a topology has an admin')
  const admin = { ...first, token: (await readFile(join(keys, 'admin.token'), 'utf8')).trim() }
  await registerRegions(new AdminClient({ ...admin, signal }), names)
  say('Starting enforcers and sync daemons')
  const regions = await allOrFirstFailure(
    topology.regions.map((region, index) => {
      const servers = { redis: redis[index], nats: nats.get(region.name) }
      return startRegion(launch, { region, keys, signal, ...servers })
    }),
  )
  return { admin, otherAdmins, postgres, regions }
}

async function startDatabase(
  launch: Launch,
  url: string | null,
  isKept: boolean,
): Promise<PostgresServer> {
  return url === null ? startPostgres(launch, { isKept }) : { url, child: null }
}

/** The URL by which admins connect as a role that owns nothing; its password is another at each start. */
async function asService(ownerUrl: string): Promise<string> {
  const url = new URL(ownerUrl)
  url.username = SERVICE_ROLE
  url.password = randomBytes(SERVICE_PASSWORD_BYTES).toString('hex')
  await prepareServiceDatabase({
    owner: { url: ownerUrl },
    service: { url: url.href },
    migrations: join(PACKAGE_ROOT, 'migrations'),
  })
  return url.href
}

function startAdmins(
  launch: Launch,
  options: {
    readonly topology: Topology
    readonly keys: string
    readonly database: string
    readonly nats: ReadonlyMap<string, NatsServer>
  },
): Promise<RunningService[]> {
  const { topology, keys, database, nats } = options
  const urls = [...nats.values()].map(({ url }) => url)
  const starts = Array.from({ length: topology.admins }, (_, index) =>
    startService(launch, {
      service: 'admin',
      name: `admin ${index + 1}`,
      usualPort: topology.adminPort,
      env: {
        DATABASE_URL: database,
        // Each hears the plane by another region's NATS.
        NATS_URL: urls[index % urls.length] ?? '',
        NATS_NKEY_SEED_FILE: join(keys, 'nats-admin.seed'),
        QUOTAPLANE_ADMIN_TOKEN_FILE: join(keys, 'admin.token'),
      },
    }),
  )
  return allOrFirstFailure(starts)
}

async function startRegion(
  launch: Launch,
  options: {
    readonly region: TopologyRegion
    readonly keys: string
    readonly signal: AbortSignal
    readonly redis: RedisServer | undefined
    readonly nats: NatsServer | undefined
  },
): Promise<RunningRegion> {
  const { region, keys, signal, redis, nats } = options
  const { name } = region
  if (redis === undefined || nats === undefined) throw new Error(`${name} has its servers`)
  const redisEnv = (user: string) => ({
    REGION: name,
    REDIS_URL: redis.url,
    REDIS_USERNAME: user,
    REDIS_PASSWORD_FILE: join(keys, `redis-${name}-${user}.password`),
  })
  const debugFile = join(keys, `debug-${name}.token`)
  const startEnforcer = (index: number): Promise<RunningService> =>
    startService(launch, {
      service: 'enforcer',
      name: `enforcer ${index + 1} of ${name}`,
      usualPort: region.enforcerPort,
      usualGrpcPort: region.enforcerPort,
      // Everything runs on one machine here, where Redis may have to wait for a processor.
      env: {
        ...redisEnv('enforcer'),
        REDIS_DEADLINE_MS: '250',
        ENFORCER_DEBUG_TOKEN_FILE: debugFile,
      },
    })
  const startSync = (index: number): Promise<RunningService> =>
    startService(launch, {
      service: 'sync',
      name: `sync daemon ${index + 1} of ${name}`,
      usualPort: 7080,
      env: {
        ...redisEnv('sync'),
        NATS_URL: nats.url,
        NATS_NKEY_SEED_FILE: join(keys, `nats-${name}.seed`),
      },
    })
  const [enforcers, daemons] = await allOrFirstFailure([
    allOrFirstFailure(Array.from({ length: region.enforcers }, (_, index) => startEnforcer(index))),
    allOrFirstFailure(Array.from({ length: region.syncDaemons }, (_, index) => startSync(index))),
  ])
  await allOrFirstFailure([
    ...enforcers.map((enforcer) => whenReady(enforcer, READY_TIMEOUT_MS, signal)),
    whenOneIsReady(daemons, signal),
  ])
  const [sync, ...standbys] = daemons
  if (sync === undefined) throw new Error('a region has a daemon')
  const debugToken = (await readFile(debugFile, 'utf8')).trim()
  return { region: name, redis, nats, enforcers, debugToken, sync, standbys }
}

/** One daemon of a region leads and is ready; the others wait for leadership. */
async function whenOneIsReady(
  daemons: readonly RunningService[],
  signal: AbortSignal,
): Promise<void> {
  const found = new AbortController()
  const until = AbortSignal.any([signal, found.signal])
  try {
    await Promise.any(daemons.map((daemon) => whenReady(daemon, READY_TIMEOUT_MS, until)))
  } catch (err) {
    throw err instanceof AggregateError ? err.errors[0] : err
  } finally {
    found.abort()
  }
}
