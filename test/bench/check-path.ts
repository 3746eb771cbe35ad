/**
 * Checks a second through CheckStore against one EVALSHA a check, in the same process on the same Redis.
 *
 * Run with `npm run bench`: it prints one line a measurement and the ratio. Both sides keep a token bucket of the
 * same numbers; the usual side is the shortest script that does, without shares, totals or fencing.
 */
import type { Redis } from 'ioredis'
import { counterId, counterName, SLOT_GROUPS, slotGroup } from '../../shared/core/counter-id.ts'
import type { RegionLimit } from '../../shared/core/policy.ts'
import type { GroupCheck } from '../../shared/core/ports.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { createCheckStore } from '../../shared/redis/check-store.ts'
import { createRedis } from '../../shared/redis/client.ts'
import { createPolicyReader } from '../../shared/redis/policy-reader.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { startRedisServer } from '../support/redis-server.ts'

const KEYS = 100_000
const CHECKS = 300_000
const CONCURRENCY = [512, 2_048]
const ROUNDS = 3

/** A bucket in a hash, one call a check: what most limiters on Redis do. */
const USUAL = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local state = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local tokens = tonumber(state[1]) or 100
local last = tonumber(state[2]) or now
tokens = math.min(100, tokens + (now - last) * 100 / 60000)
local allowed = 0
if tokens >= 1 then
  tokens = tokens - 1
  allowed = 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'last', now)
redis.call('PEXPIRE', KEYS[1], 82000)
return { allowed, math.floor(tokens) }`

interface Measured {
  readonly perSecond: number
  readonly redisUs: number
  readonly nodeUs: number
}

async function main(): Promise<void> {
  const server = await startRedisServer()
  const redis = createRedis({ url: server.url, name: 'bench', onError: () => {} })
  await new Promise((resolve) => redis.once('ready', resolve))
  try {
    const { limit, version } = await serve(server.url, redis)
    const store = createCheckStore({ redis, deadlineMs: 10_000 })
    const checks = Array.from({ length: KEYS }, (_, index) => checkOf(limit, index))
    const sha = String(await redis.script('LOAD', USUAL))
    const ours = (index: number): Promise<unknown> => store.check(at(checks, index), version)
    const usual = (index: number): Promise<unknown> => redis.evalsha(sha, 1, `usual:${index}`)
    // Every key exists before anything is measured: births cost more, on both sides.
    await run(redis, 512, KEYS, usual)
    await run(redis, 512, KEYS, ours)
    for (const concurrency of CONCURRENCY) {
      for (let round = 0; round < ROUNDS; round++) {
        const one = await run(redis, concurrency, CHECKS / 3, usual)
        const batched = await run(redis, concurrency, CHECKS, ours)
        report(concurrency, one, batched)
      }
    }
  } finally {
    redis.disconnect()
    await server.stop()
  }
}

async function serve(url: string, redis: Redis): Promise<{ limit: RegionLimit; version: number }> {
  const clock = { monotonicMs: () => performance.now() }
  const daemon = await connectRegionStore({ url, region: 'bench', clock })
  await daemon.open()
  await daemon.begin({ incarnation: 1, levels: 'full', recovering: false })
  const spec = {
    id: 1,
    name: 'per-minute',
    algorithm: 'token_bucket',
    usageEpoch: 0,
    capacity: 100,
    windowMs: 60_000,
    burst: 100,
    home: POOL_UNITS,
  } as const
  const policy = {
    id: 1,
    domain: 'api',
    name: 'per-tenant',
    revision: 1,
    match: [{ key: 'tenant' }],
    onStoreFailure: 'deny',
    limits: [spec],
  } as const
  const change = { revision: 1, members: ['bench'], plane: [], region: [policy] }
  const version = await daemon.writePolicies({ ...change, recovering: false })
  await daemon.serve()
  await daemon.close()
  const { policies } = await createPolicyReader({ redis }).readAll()
  return { limit: at(policies[0]?.limits ?? [], 0), version }
}

function checkOf(limit: RegionLimit, index: number): GroupCheck {
  const entries = [{ key: 'tenant', value: `t${index}` }]
  const group = slotGroup({ domain: 'api', entries })
  const name = counterName(entries, () => '')
  const counter = counterId({ group, limitId: limit.id, usageEpoch: 0, name })
  return { group, targets: [{ limit, counter }], cost: 1 }
}

async function run(
  redis: Redis,
  concurrency: number,
  total: number,
  check: (index: number) => Promise<unknown>,
): Promise<Measured> {
  let next = 0
  const worker = async (): Promise<void> => {
    // A stride that is prime to the number of keys: neighbours in time are far apart in memory.
    while (next < total) await check((next++ * 7_919) % KEYS)
  }
  const [redisBefore, nodeBefore, began] = [
    await cpuOf(redis),
    process.cpuUsage(),
    performance.now(),
  ]
  await Promise.all(Array.from({ length: concurrency }, worker))
  const tookMs = performance.now() - began
  const node = process.cpuUsage(nodeBefore)
  return {
    perSecond: (total / tookMs) * 1_000,
    redisUs: ((await cpuOf(redis)) - redisBefore) / total,
    nodeUs: (node.user + node.system) / total,
  }
}

/** Processor time of Redis' main thread, us. */
async function cpuOf(redis: Redis): Promise<number> {
  const info = await redis.info('cpu')
  const seconds = (kind: string): number =>
    Number(new RegExp(`used_cpu_${kind}_main_thread:([\\d.]+)`).exec(info)?.[1])
  return (seconds('user') + seconds('sys')) * 1e6
}

function report(concurrency: number, usual: Measured, ours: Measured): void {
  const line = (name: string, { perSecond, redisUs, nodeUs }: Measured): string =>
    `${name} ${perSecond.toFixed(0)}/s (processor us a check: redis ${redisUs.toFixed(2)}, node ${nodeUs.toFixed(2)})`
  const ratio = (ours.perSecond / usual.perSecond).toFixed(2)
  process.stdout.write(
    `concurrency ${concurrency}, ${KEYS} keys, ${SLOT_GROUPS} groups: ${line('batched', ours)}; ${line('a call a check', usual)}; ratio ${ratio}\n`,
  )
}

function at<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new Error('the list is long enough')
  return value
}

await main()
