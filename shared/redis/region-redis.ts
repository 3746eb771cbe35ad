/** A region's Redis, be it one server or a cluster. */
import type { Redis } from 'ioredis'
import { type HostPort, parseRedisUrl } from './address.ts'
import { createNode, createRedis, createSingleConnection, type RedisOptions } from './client.ts'
import { RedisCluster } from './redis-cluster.ts'

export type RegionRedis = Redis | RedisCluster

/** Where its keys are is known to what makes the call: all of one call are in the slot of `key`. */
export function onNodeOf<T>(
  redis: RegionRedis,
  key: string,
  call: (node: Redis) => Promise<T>,
): Promise<T> {
  return redis instanceof RedisCluster ? redis.follow(key, call) : call(redis)
}

/** Every server that may be asked for something. */
export async function mastersOf(redis: RegionRedis): Promise<readonly Redis[]> {
  return redis instanceof RedisCluster ? await redis.masters() : [redis]
}

/** The servers that have these keys. */
export async function ownersOf(
  redis: RegionRedis,
  keys: readonly string[],
): Promise<readonly Redis[]> {
  return redis instanceof RedisCluster ? await redis.ownersOf(keys) : [redis]
}

/** Runs `write`; what it sends leaves in one write of a socket. A write each costs more than what it carries. */
export function corked(redis: RegionRedis, write: () => void): void {
  if (redis instanceof RedisCluster) {
    redis.corked(write)
    return
  }
  const { stream } = redis
  stream?.cork()
  write()
  stream?.uncork()
}

/** As `createRedis`; of a cluster, such a client for each node. */
export function openRegionRedis(
  options: RedisOptions & { readonly onReady: () => void },
): RegionRedis {
  const address = parseRedisUrl(options.url)
  if (address?.kind !== 'cluster') {
    const redis = createRedis(options)
    redis.on('ready', options.onReady)
    return redis
  }
  const cluster = new RedisCluster({ ...options, ...address, connection: 'lasting' })
  void cluster.connect()
  return cluster
}

/** One connection on which a region's news are heard; any node of a cluster tells them. */
export function openNewsRedis(options: RedisOptions & { readonly onReady: () => void }): Redis {
  const address = parseRedisUrl(options.url)
  if (address?.kind !== 'cluster') {
    const redis = createRedis(options)
    redis.on('ready', options.onReady)
    return redis
  }
  const { seeds, access } = address
  let next = Math.floor(Math.random() * seeds.length)
  const seed = (): HostPort => seeds[next++ % seeds.length] ?? { host: '', port: 0 }
  const redis = createNode({ ...options, access }, seed(), 'lasting')
  redis.on('ready', options.onReady)
  // The driver reads its options at each attempt.
  redis.on('close', () => void Object.assign(redis.options, seed()))
  return redis
}

/** As `createSingleConnection`, connected; of a cluster, such a connection to each node. */
export async function connectRegionRedisOnce(options: RedisOptions): Promise<RegionRedis> {
  const address = parseRedisUrl(options.url)
  const redis =
    address?.kind === 'cluster'
      ? new RedisCluster({ ...options, ...address, connection: 'single' })
      : createSingleConnection(options)
  try {
    await redis.connect()
  } catch (err) {
    redis.disconnect()
    throw err
  }
  return redis
}
