import type { Redis } from 'ioredis'
import type { SyncFacts } from '../protocol/facts.ts'
import { mastersOf, type RegionRedis } from './region-redis.ts'

type RedisFacts = NonNullable<SyncFacts['redis']>

/**
 * What a region's Redis says of itself; null while it does not answer. Of a cluster the server that would evict is told
 * of, or else the first, with the keys that all of them have evicted.
 *
 * Asks INFO, and CONFIG for the one thing that INFO does not say; a Redis that refuses CONFIG, as rented ones do,
 * leaves that unknown.
 */
export async function readRedisFacts(redis: RegionRedis): Promise<SyncFacts['redis']> {
  try {
    const all = await Promise.all((await mastersOf(redis)).map(readServer))
    const shown = all.find(({ maxmemoryPolicy }) => maxmemoryPolicy !== 'noeviction') ?? all[0]
    if (shown === undefined) return null
    const evictedKeys = all.reduce((sum, one) => sum + (one.evictedKeys ?? 0), 0)
    return { ...shown, evictedKeys }
  } catch {
    return null // It does not answer, and that is what is told.
  }
}

async function readServer(redis: Redis): Promise<RedisFacts> {
  const [text, save] = await Promise.all([redis.info(), readSave(redis)])
  const said = new Map(
    text.split(/\r?\n/).flatMap((line) => {
      const at = line.indexOf(':')
      return at < 1 ? [] : [[line.slice(0, at), line.slice(at + 1)] as const]
    }),
  )
  const whole = (name: string): number | null => {
    const value = Number(said.get(name) ?? Number.NaN)
    return Number.isSafeInteger(value) ? value : null
  }
  const [seconds, micros] = await redis.time()
  return {
    version: said.get('redis_version') ?? 'unknown',
    role: said.get('role') ?? 'unknown',
    timeMs: Number(seconds) * 1_000 + Number(micros) / 1_000,
    maxmemoryPolicy: said.get('maxmemory_policy') ?? null,
    maxmemoryBytes: whole('maxmemory'),
    usedBytes: whole('used_memory'),
    evictedKeys: whole('evicted_keys'),
    isPersistent: said.get('aof_enabled') === '1' ? true : save,
  }
}

async function readSave(redis: Redis): Promise<boolean | null> {
  try {
    const reply = await redis.config('GET', 'save')
    return Array.isArray(reply) ? String(reply[1] ?? '') !== '' : null
  } catch {
    return null
  }
}
