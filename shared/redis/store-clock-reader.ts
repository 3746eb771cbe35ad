import type { Redis } from 'ioredis'
import type { StoreClockReader } from '../core/ports.ts'
import { QuotaError } from '../errors.ts'
import { mastersOf, type RegionRedis } from './region-redis.ts'

/** What a user of Redis is told who may not ask for the time, and everybody where TIME was renamed away. */
const REFUSED = /^NOPERM|^ERR unknown command/

/** A StoreClockReader by TIME, which every script calls too. */
export function createStoreClockReader(options: {
  readonly redis: RegionRedis
  readonly clock: { wallMs(): number }
}): StoreClockReader {
  const { redis, clock } = options
  const aheadOf = async (node: Redis): Promise<number> => {
    const beforeMs = clock.wallMs()
    const [seconds, micros] = await node.time()
    const atMs = Number(seconds) * 1_000 + Number(micros) / 1_000
    return Math.max(0, atMs - clock.wallMs()) + Math.min(0, atMs - beforeMs)
  }
  return {
    async readAheadMs() {
      try {
        const all = await Promise.all((await mastersOf(redis)).map(aheadOf))
        return all.reduce((most, one) => (Math.abs(one) > Math.abs(most) ? one : most), 0)
      } catch (cause) {
        if (cause instanceof Error && REFUSED.test(cause.message)) return null
        const message = 'Redis did not say what time it is'
        throw new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
      }
    },
  }
}
