import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type CheckStoreOptions, createCheckStore } from '../../shared/redis/check-store.ts'
import { REGION_KEYS } from '../../shared/redis/keys.ts'
import { aLimit, NOON_US, RedisRegion, readyRedis } from '../support/redis-region.ts'

/** What CheckStore promises when Redis is away, not served, or slow. Decisions: test/integration/redis. */

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const opened: Redis[] = []
beforeEach(async () => {
  await region.time.set(NOON_US)
  await region.begin([aLimit({ capacity: 100 })])
})
afterEach(() => {
  region.server.resume()
  for (const redis of opened.splice(0)) redis.disconnect()
})

/** Patient unless told otherwise: tests share their processors with others. */
async function enforcer(options: Omit<CheckStoreOptions, 'redis'> = { deadlineMs: 5_000 }) {
  const redis = await readyRedis(region.server.url)
  opened.push(redis)
  const store = createCheckStore({ redis, ...options })
  return {
    check: (key = 'acme') => store.check(region.target(1, key), region.version),
    giveBack: () => store.giveBack(region.target(1), region.version, region.time.us),
  }
}

const unavailable = { code: 'QUOTA_STORE_UNAVAILABLE' }

describe('CheckStore', () => {
  it('counts each of many checks at once exactly once, over all slot groups', async () => {
    const { check } = await enforcer({ deadlineMs: 10_000 })
    const keys = Array.from({ length: 40 }, (_, index) => `key-${index}`)
    await Promise.all(Array.from({ length: 2_000 }, (_, index) => check(keys[index % 40])))
    for (const key of keys) expect(await region.check(0, key)).toMatchObject({ remaining: 50 })
  })

  it('is unavailable after the scripts were flushed, until the daemon serves again', async () => {
    const { check, giveBack } = await enforcer()
    await check()
    await region.redis.script('FLUSH')
    await expect(check()).rejects.toMatchObject(unavailable)
    await expect(giveBack()).rejects.toMatchObject(unavailable)
    await region.daemon.open()
    await region.daemon.serve()
    expect((await check()).decisions[0]).toMatchObject({ allowed: true, remaining: 98 })
  })

  it('B089: needs one more round trip to learn of scripts that are served anew, and counts once', async () => {
    const { check } = await enforcer()
    await check()
    await region.redis.script('FLUSH')
    await region.daemon.open()
    await region.daemon.serve()
    const answers = await Promise.all(Array.from({ length: 50 }, () => check()))
    expect(answers.every(({ decisions }) => decisions[0]?.allowed)).toBe(true)
    expect(await region.check(0)).toMatchObject({ remaining: 49 })
  })

  it('loads no script by itself', async () => {
    await region.redis.script('FLUSH')
    const { check } = await enforcer()
    await expect(check()).rejects.toMatchObject(unavailable)
    const shas = await region.redis.hmget(REGION_KEYS.region, 'checkSha', 'giveBackSha')
    expect(await region.redis.script('EXISTS', ...shas.map(String))).toEqual([0, 0])
  })

  it('is unavailable while no daemon has served this Redis', async () => {
    await region.redis.flushall()
    await region.time.set(NOON_US)
    const { check } = await enforcer()
    await expect(check()).rejects.toMatchObject(unavailable)
  })

  it('is unavailable where Redis lost its data and kept its scripts', async () => {
    const { check } = await enforcer()
    await check()
    await region.redis.flushall()
    await region.time.set(NOON_US)
    await expect(check()).rejects.toMatchObject(unavailable)
    expect(await region.redis.keys('c:*')).toEqual([])
  })

  it('is unavailable between the beginning of a boot and its serving', async () => {
    const { check } = await enforcer()
    await check()
    await region.boot(2)
    await expect(check()).rejects.toMatchObject(unavailable)
    await region.daemon.serve()
    expect((await check()).decisions[0]).toMatchObject({ allowed: false })
  })

  it('is unavailable on a server with another history, though its scripts are there', async () => {
    const { check } = await enforcer()
    await check()
    // A server that became a replica and a primary again has a new replication id and its old scripts.
    await region.redis.call('REPLICAOF', '127.0.0.1', '1')
    await region.redis.call('REPLICAOF', 'NO', 'ONE')
    await expect(check()).rejects.toMatchObject(unavailable)
    expect(await region.redis.keys('c:*')).toHaveLength(1)
    await region.daemon.open()
    await region.daemon.serve()
    expect((await check()).decisions[0]).toMatchObject({ allowed: true })
  })

  it('gives up at its deadline when Redis hangs, and works again after it', async () => {
    const { check } = await enforcer({ deadlineMs: 40 })
    await check()
    region.server.pause()
    const began = performance.now()
    const calls = await Promise.allSettled(Array.from({ length: 100 }, () => check()))
    const tookMs = performance.now() - began
    region.server.resume()
    for (const call of calls) expect(call).toMatchObject({ reason: unavailable })
    expect(tookMs).toBeGreaterThanOrEqual(39)
    expect(tookMs).toBeLessThan(1_000)
    await vi.waitFor(async () => expect((await check()).decisions).toHaveLength(1))
  })

  it('waits for no more of a Redis that hangs, once one call is overdue', async () => {
    const { check } = await enforcer({ deadlineMs: 40 })
    await check()
    region.server.pause()
    await expect(check()).rejects.toMatchObject(unavailable)
    const began = performance.now()
    for (let call = 0; call < 100; call++) await expect(check()).rejects.toMatchObject(unavailable)
    expect(performance.now() - began).toBeLessThan(1_000)
    region.server.resume()
    await vi.waitFor(async () => expect((await check()).decisions).toHaveLength(1))
  })

  it('gives a connection up that stays silent, and makes another', {
    timeout: 15_000,
  }, async () => {
    const { check } = await enforcer({ deadlineMs: 40 })
    await check()
    const clients = async (): Promise<number> =>
      String(await region.redis.client('LIST')).split('\n').length
    const before = await clients()
    region.server.pause()
    await expect(check()).rejects.toMatchObject(unavailable)
    await vi.waitFor(() => expect(opened.at(-1)?.status).not.toBe('ready'), 10_000)
    region.server.resume()
    await vi.waitFor(async () => expect((await check()).decisions).toHaveLength(1), 5_000)
    expect(await clients()).toBeLessThanOrEqual(before)
  })

  it('refuses at once what it cannot hold', async () => {
    const { check } = await enforcer({ deadlineMs: 100, waitingMax: 10 })
    await check()
    region.server.pause()
    const calls = Array.from({ length: 12 }, () => check())
    await expect(calls[10]).rejects.toMatchObject({ code: 'QUOTA_OVERLOADED' })
    await expect(calls[11]).rejects.toMatchObject({ code: 'QUOTA_OVERLOADED' })
    region.server.resume()
    await Promise.allSettled(calls)
    expect((await check()).decisions).toHaveLength(1)
  })

  it('does not take a busy process for a slow Redis, and counts such stalls apart (B106)', async () => {
    const stalls: number[] = []
    const { check } = await enforcer({ deadlineMs: 20, onStall: (lateMs) => stalls.push(lateMs) })
    await check()
    const call = check()
    await new Promise((resolve) => setImmediate(resolve))
    const until = performance.now() + 60
    while (performance.now() < until);
    expect((await call).decisions).toHaveLength(1)
    expect(stalls.length).toBeGreaterThan(0)
  })

  it('rejects at once on a connection that is down, and comes back by itself', {
    timeout: 15_000,
  }, async () => {
    const { check } = await enforcer({ deadlineMs: 2_000 })
    await check()
    await region.server.kill()
    const began = performance.now()
    await expect(check()).rejects.toMatchObject(unavailable)
    await expect(check()).rejects.toMatchObject(unavailable)
    expect(performance.now() - began).toBeLessThan(1_000)
    await region.server.restart()
    await region.reconnect()
    await vi.waitFor(async () => expect((await check()).decisions).toHaveLength(1), 5_000)
  })
})
