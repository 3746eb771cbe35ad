import type { Redis } from 'ioredis'
import type { EnforcerRoll } from '../core/ports.ts'
import { QuotaError } from '../errors.ts'
import { REGION_KEYS } from './keys.ts'

/** An enforcer that was not heard for this long is taken to be gone: five missed beats. */
const ALIVE_MS = 5_000

/** An EnforcerRoll in one sorted set, dated by the clock of Redis alone. */
export function createEnforcerRoll({ redis }: { readonly redis: Redis }): EnforcerRoll {
  return {
    async beat(id) {
      try {
        const [seconds, micros] = await redis.time()
        const nowMs = Number(seconds) * 1_000 + Number(micros) / 1_000
        const replies = await redis
          .multi()
          .zadd(REGION_KEYS.enforcers, nowMs + ALIVE_MS, id)
          .zremrangebyscore(REGION_KEYS.enforcers, '-inf', nowMs)
          .zcard(REGION_KEYS.enforcers)
          .pexpire(REGION_KEYS.enforcers, ALIVE_MS)
          .exec()
        return Math.max(1, Number(replies?.[2]?.[1] ?? 1))
      } catch (cause) {
        const message = 'could not tell Redis that this enforcer is alive'
        throw new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
      }
    },
    async leave(id) {
      await redis.zrem(REGION_KEYS.enforcers, id).catch(() => {
        // It is taken to be gone soon anyway.
      })
    },
  }
}
