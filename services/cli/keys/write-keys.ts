import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nkeys } from 'nats'
import type { RegionId } from '../../../shared/core/policy.ts'
import { CliError } from '../errors.ts'
import { finishEarlier, type Write, writeTogether } from './all-or-none.ts'
import type { Pair } from './gateway-certificates.ts'
import {
  AUTHORITY_FILES,
  type GatewayHosts,
  gatewayFiles,
  readAuthority,
  writeAuthority,
  writeGateway,
} from './gateway-files.ts'
import { gatewayAuthorization, natsAuthorization } from './nats-permissions.ts'
import { REDIS_USERS, redisPasswordHash, redisUsers } from './redis-users.ts'

/** Readable by its owner alone. */
const SECRET_MODE = 0o600

/** Of a token or password that nobody has to type. */
const RANDOM_BYTES = 32

const GATEWAY_FILE = 'nats-gateway.conf'

const LAST_FILE = 'nats-admin.seed'

const NO_HOSTS: GatewayHosts = new Map()

/**
 * Writes keys for the NATS and the Redis of every region into `folder`: `nats-<region>.conf` to include in a server's configuration,
 * `nats-<region>.seed` for the region's daemons, `nats-admin.seed` for the admins; `nats-gateway.conf`, by which the
 * servers of the regions know one another, with `gateway-<region>.crt` and `.key` for each and `gateways.crt` and `.key` of
 * the authority that they are of; `redis-<region>.acl` for the region's Redis and `redis-<region>-<user>.password` for each of its users; `debug-<region>.token`, by which the region's
 * enforcers show decisions; and `admin.token`, a first token of the admin API. Resolves with the files' names.
 *
 * All of them are written or none; what a run that was killed left is finished or taken back first. The folder must be
 * empty or not there: keys that are in use are never written over.
 */
export async function writeKeys(
  folder: string,
  regions: readonly RegionId[],
  hosts: GatewayHosts = NO_HOSTS,
): Promise<string[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const finished = await finishEarlier(folder)
  if (finished.length > 0 && (await withoutKeys(folder, regions)).length === 0) return finished
  if ((await readdir(folder)).length > 0) {
    throw new CliError(`${folder} is not empty; name a folder that is, so that no key is lost`)
  }
  return writeTogether(folder, async (write) => {
    await write('admin.token', `${randomText()}\n`, SECRET_MODE)
    await write(GATEWAY_FILE, gatewayAuthorization(randomText()), SECRET_MODE)
    const authority = await writeAuthority(write)
    const admin = nkeys.createUser()
    const adminKey = admin.getPublicKey()
    for (const region of regions) {
      await writeRegion(region, adminKey, write)
      await writeGateway(region, { authority, hosts, write })
    }
    await write(LAST_FILE, seedOf(admin), SECRET_MODE)
  })
}

/**
 * Writes the keys of further regions into a folder that `writeKeys` has written, so that the same admins and the same
 * gateways know them: for a region that is added, or one whose files were taken out since a key of it may be known.
 */
export async function addKeys(
  folder: string,
  regions: readonly RegionId[],
  hosts: GatewayHosts = NO_HOSTS,
): Promise<string[]> {
  const finished = await finishEarlier(folder)
  if (!(await hasKeys(folder))) {
    throw new CliError(`${folder} has no keys of a plane; make them by \`quotaplane keys create\``)
  }
  const isFinished = (region: RegionId): boolean =>
    finished.some((name) => isOfRegion(name, region))
  const there = await readdir(folder)
  for (const region of regions) {
    const found = there.find((name) => isOfRegion(name, region))
    if (found === undefined || isFinished(region)) continue
    throw new CliError(
      `${folder} has ${found} already; to renew the keys of ${region}, take its files out of there first`,
    )
  }
  const seed = (await readFile(join(folder, LAST_FILE), 'utf8')).trim()
  const admin = nkeys.fromSeed(new TextEncoder().encode(seed))
  const rest = regions.filter((region) => !isFinished(region))
  const authority = await authorityIn(folder)
  const written = await writeTogether(folder, async (write) => {
    const known = authority ?? (await writeAuthority(write))
    for (const region of rest) {
      await writeRegion(region, admin.getPublicKey(), write)
      await writeGateway(region, { authority: known, hosts, write })
    }
  })
  return [...finished, ...written]
}

/**
 * Writes what this version has for each region and an earlier one did not write: the tokens by which enforcers show
 * decisions, and the gateways' certificates. Resolves with the names of the files.
 */
export async function addLaterKeys(
  folder: string,
  hosts: GatewayHosts = NO_HOSTS,
): Promise<string[]> {
  const finished = await finishEarlier(folder)
  const there = new Set(await readdir(folder))
  const regions = [...there].flatMap((name) => /^redis-(.+)\.acl$/.exec(name)?.[1] ?? [])
  const withoutToken = regions.filter((region) => !there.has(debugFile(region)))
  const withoutCertificate = regions.filter((region) => !there.has(gatewayFiles(region).cert))
  const authority = await authorityIn(folder)
  const written = await writeTogether(folder, async (write) => {
    for (const region of withoutToken) await writeDebugToken(region, write)
    if (withoutCertificate.length === 0) return
    const known = authority ?? (await writeAuthority(write))
    for (const region of withoutCertificate) {
      await writeGateway(region, { authority: known, hosts, write })
    }
  })
  return [...finished, ...written]
}

/** Null where an earlier version wrote the keys; one whose key was taken away is an error. */
async function authorityIn(folder: string): Promise<Pair | null> {
  return (await readdir(folder)).includes(AUTHORITY_FILES.cert) ? readAuthority(folder) : null
}

/** Those of `regions` of which the folder has no file. */
export async function withoutKeys(
  folder: string,
  regions: readonly RegionId[],
): Promise<readonly RegionId[]> {
  const there = await readdir(folder)
  return regions.filter((region) => !there.some((name) => isOfRegion(name, region)))
}

async function writeRegion(region: RegionId, adminKey: string, write: Write): Promise<void> {
  const sync = nkeys.createUser()
  await write(`nats-${region}.seed`, seedOf(sync), SECRET_MODE)
  await write(
    `nats-${region}.conf`,
    natsAuthorization({ region, syncKey: sync.getPublicKey(), adminKey }),
  )
  await writeDebugToken(region, write)
  await writeRedisUsers(region, write)
}

function debugFile(region: RegionId): string {
  return `debug-${region}.token`
}

/** One a region, so that an enforcer that was taken over cannot look into another region's. */
async function writeDebugToken(region: RegionId, write: Write): Promise<void> {
  await write(debugFile(region), `${randomText()}\n`, SECRET_MODE)
}

function isOfRegion(name: string, region: RegionId): boolean {
  const passwords = REDIS_USERS.map((user) => `redis-${region}-${user}.password`)
  const others = [
    `nats-${region}.seed`,
    `nats-${region}.conf`,
    `redis-${region}.acl`,
    debugFile(region),
  ]
  return [...passwords, ...others].includes(name)
}

async function writeRedisUsers(region: RegionId, write: Write): Promise<void> {
  const passwords = new Map(REDIS_USERS.map((user) => [user, randomText()]))
  for (const [user, password] of passwords) {
    await write(`redis-${region}-${user}.password`, `${password}\n`, SECRET_MODE)
  }
  const acl = redisUsers((user) => redisPasswordHash(passwords.get(user) ?? ''))
  await write(`redis-${region}.acl`, acl)
}

function randomText(): string {
  return randomBytes(RANDOM_BYTES).toString('base64url')
}

function seedOf(pair: ReturnType<typeof nkeys.createUser>): string {
  return `${new TextDecoder().decode(pair.getSeed())}\n`
}

/** Whether `writeKeys` has written into the folder before, to its end: the admins' seed comes into it last. */
export async function hasKeys(folder: string): Promise<boolean> {
  try {
    return (await readdir(folder)).includes(LAST_FILE)
  } catch {
    // It is not there, or cannot be read, and then writing says why.
    return false
  }
}
