/**
 * What one idle key takes in Redis, with all that Redis needs to find it: the growth of its memory over many new keys.
 * At most 200 bytes are promised for a key of one limit.
 */
import type { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { decide } from '../../services/enforcer/decide.ts'
import { type Contest, callsPerSecond } from './measure.ts'
import { PER_TENANT, startBenchRegion } from './region.ts'

const KEYS = 50_000
const CONCURRENCY = 512

export async function keyMemory(): Promise<{ contest: Contest; stop(): Promise<void> }> {
  const region = await startBenchRegion(PER_TENANT)
  const peer = new RateLimiterRedis({ storeClient: region.redis, points: 100, duration: 3_600 })
  let keys = 0
  const bytesPerKey = async (use: (tenant: string) => Promise<unknown>): Promise<number> => {
    const before = await memoryOf(region.redis)
    const call = (): Promise<unknown> => use(`tenant-${1_000_000 + keys++}`)
    await callsPerSecond({ concurrency: CONCURRENCY, calls: KEYS, call })
    return ((await memoryOf(region.redis)) - before) / KEYS
  }
  return {
    contest: {
      name: 'key-memory',
      unit: 'bytes/key',
      peerName: 'rate-limiter-flexible (Redis)',
      ours: () =>
        bytesPerKey((value) => {
          const descriptors = [{ entries: [{ key: 'tenant', value }] }]
          return decide(region.context, { domain: 'api', descriptors, cost: 1 })
        }),
      peer: () => bytesPerKey((tenant) => peer.consume(tenant)),
    },
    stop: () => region.stop(),
  }
}

/** With the tables that find and expire keys, but without what connections hold. */
async function memoryOf(redis: Redis): Promise<number> {
  const memory = await redis.info('memory')
  const figure = (name: string): number => Number(new RegExp(`\\b${name}:(\\d+)`).exec(memory)?.[1])
  return figure('used_memory') - figure('mem_clients_normal')
}
