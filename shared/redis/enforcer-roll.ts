import type { Redis } from 'ioredis'
import type { EnforcerRoll, RegionStore } from '../core/ports.ts'
import type { EnforcerStatus } from '../core/rollout.ts'
import { QuotaError } from '../errors.ts'
import { enforcerKey, REGION_KEYS } from './keys.ts'
import { onNodeOf, type RegionRedis } from './region-redis.ts'

/** An enforcer that was not heard for this long is taken to be gone: five missed beats. */
const ALIVE_MS = 5_000

/** Most enforcers that are told of one by one: a report of as many is some 200 kB, which a NATS message holds. */
export const ENFORCERS_LISTED_MAX = 500

/** An EnforcerRoll in one sorted set, dated by the clock of Redis alone, and a key for what each enforcer applies. */
export function createEnforcerRoll({ redis }: { readonly redis: RegionRedis }): EnforcerRoll {
  return {
    async beat(status) {
      try {
        return await onNodeOf(redis, REGION_KEYS.enforcers, (node) => beatOnNode(node, status))
      } catch (cause) {
        const message = 'could not tell Redis that this enforcer is alive'
        throw new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
      }
    },
    async leave(id) {
      const left = onNodeOf(redis, REGION_KEYS.enforcers, (node) =>
        node.multi().zrem(REGION_KEYS.enforcers, id).del(enforcerKey(id)).exec(),
      )
      await left.catch(() => {
        // It is taken to be gone soon anyway.
      })
    },
  }
}

async function beatOnNode(node: Redis, status: EnforcerStatus): Promise<number> {
  const [seconds, micros] = await node.time()
  const nowMs = Number(seconds) * 1_000 + Number(micros) / 1_000
  const replies = await node
    .multi()
    .zadd(REGION_KEYS.enforcers, nowMs + ALIVE_MS, status.id)
    .zremrangebyscore(REGION_KEYS.enforcers, '-inf', nowMs)
    .zcard(REGION_KEYS.enforcers)
    .pexpire(REGION_KEYS.enforcers, ALIVE_MS)
    .set(enforcerKey(status.id), JSON.stringify(status), 'PX', ALIVE_MS)
    .exec()
  return Math.max(1, Number(replies?.[2]?.[1] ?? 1))
}

/**
 * What live enforcers said last. One whose word is gone has gone itself, though the roll may still name it. Those that
 * are behind come first: where all that are listed apply a revision, so do those that are not.
 */
export async function readEnforcers(redis: RegionRedis): ReturnType<RegionStore['readEnforcers']> {
  const onNode = <T>(call: (node: Redis) => Promise<T>) =>
    onNodeOf(redis, REGION_KEYS.enforcers, call)
  const ids = await onNode((node) => node.zrange(REGION_KEYS.enforcers, 0, '-1'))
  const keys = ids.map((id) => enforcerKey(id))
  const texts = keys.length === 0 ? [] : await onNode((node) => node.mget(...keys))
  const all = texts
    .flatMap((text) => (text === null ? [] : [parseStatus(text)]))
    .sort((one, other) => one.revision - other.revision || (one.id < other.id ? -1 : 1))
  const enforcers = all.slice(0, ENFORCERS_LISTED_MAX)
  return { enforcers, unlisted: all.length - enforcers.length }
}

function parseStatus(text: string): EnforcerStatus {
  return JSON.parse(text) as EnforcerStatus
}
