import type { StoreMemory, StoreMemoryReader } from '../core/ports.ts'
import { QuotaError } from '../errors.ts'
import { mastersOf, type RegionRedis } from './region-redis.ts'

/** A StoreMemoryReader by INFO, which any user of Redis may call that may run our scripts. */
export function createStoreMemoryReader(options: {
  readonly redis: RegionRedis
}): StoreMemoryReader {
  return {
    async read() {
      try {
        const masters = await mastersOf(options.redis)
        const texts = await Promise.all(masters.map((node) => node.info()))
        return texts.map(parse).reduce(both)
      } catch (cause) {
        const message = 'Redis did not say what it does when its memory is full'
        throw new QuotaError('QUOTA_STORE_UNAVAILABLE', message, { cause })
      }
    },
  }
}

function parse(info: string): StoreMemory {
  const field = (name: string): string => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1] ?? ''
  const policy = field('maxmemory_policy')
  return {
    evicts: policy === '' || policy === 'noeviction' ? null : policy,
    evictedKeys: Number(field('evicted_keys')),
  }
}

function both(one: StoreMemory, other: StoreMemory): StoreMemory {
  return {
    evicts: one.evicts ?? other.evicts,
    evictedKeys: one.evictedKeys + other.evictedKeys,
  }
}
