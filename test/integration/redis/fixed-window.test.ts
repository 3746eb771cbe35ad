import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LimitDecision } from '../../../shared/core/ports.ts'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { aLimit, NOON_US, RedisRegion, readyRedis } from '../../support/redis-region.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

async function begin(limit: Parameters<typeof aLimit>[0], atMs = 0): Promise<void> {
  await region.time.set(NOON_US + atMs * 1_000)
  await region.begin([aLimit({ algorithm: 'fixed_window', ...limit })])
}

async function checkAt(ms: number, cost = 1): Promise<LimitDecision> {
  await region.time.set(NOON_US + Math.round(ms * 1_000))
  return region.check(cost)
}

describe('a fixed window', () => {
  it('B011: admits one token in each window of two minutes', async () => {
    await begin({ capacity: 1, windowMs: 120_000 })
    const allowed: boolean[] = []
    for (const ms of [0, 119_999, 120_000, 239_999, 240_000])
      allowed.push((await checkAt(ms)).allowed)
    expect(allowed).toEqual([true, false, true, false, true])
  })

  it('admits exactly its capacity and says when the window ends', async () => {
    await begin({ capacity: 10, windowMs: 60_000 }, 59_000)
    expect(await region.admitted(12)).toBe(10)
    expect(await region.check()).toMatchObject({
      allowed: false,
      reason: 'limit',
      remaining: 0,
      resetMs: 1_000,
      retryAfterMs: 1_000,
    })
    expect(await checkAt(60_000)).toMatchObject({ allowed: true, remaining: 9, resetMs: 60_000 })
  })

  it('B031, B112: has the same edges for every enforcer, by Redis TIME', async () => {
    await begin({ capacity: 10, windowMs: 60_000 }, 59_000)
    const redis = await readyRedis(region.server.url)
    const other = createCheckStore({ redis, deadlineMs: 10_000 })
    const [one, two] = await Promise.all([
      Promise.all(Array.from({ length: 10 }, () => region.check())),
      Promise.all(Array.from({ length: 10 }, () => other.check(region.target(1), region.version))),
    ])
    redis.disconnect()
    const all = [...one, ...two.flatMap(({ decisions }) => decisions)]
    expect(all.filter(({ allowed }) => allowed)).toHaveLength(10)
    expect(new Set(all.map(({ resetMs }) => resetMs))).toEqual(new Set([1_000]))
  })

  it('B032: admits exactly five of a thousand at once over four enforcers', async () => {
    await begin({ capacity: 5 })
    const clients = await Promise.all([1, 2, 3, 4].map(() => readyRedis(region.server.url)))
    const stores = clients.map((redis) => createCheckStore({ redis, deadlineMs: 10_000 }))
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, (_, index) =>
        stores[index % 4]?.check(region.target(1), region.version),
      ),
    )
    for (const redis of clients) redis.disconnect()
    expect(answers.filter((answer) => answer?.decisions[0]?.allowed)).toHaveLength(5)
    expect(await region.check(0)).toMatchObject({ allowed: false, remaining: 0 })
  })

  it('B083: admits its capacity in each window under steady traffic', async () => {
    await begin({ capacity: 5, windowMs: 10_000 })
    let admitted = 0
    for (let ms = 0; ms < 30_000; ms += 500) if ((await checkAt(ms)).allowed) admitted++
    expect(admitted).toBe(15)
  })

  it('B109: never opens an older window again when the clock goes back', async () => {
    await begin({ capacity: 10, windowMs: 10_000 }, 15_000)
    await region.check(3)
    expect(await checkAt(4_000)).toMatchObject({ allowed: true, remaining: 6 })
    expect(await checkAt(15_000)).toMatchObject({ allowed: true, remaining: 5 })
    expect(await checkAt(-3_600_000)).toMatchObject({ allowed: true, remaining: 4 })
  })

  it('B110: locks for one window at most once a clock that jumped is put right', async () => {
    await begin({ capacity: 10, windowMs: 10_000 })
    await region.check(10)
    expect(await checkAt(3_600_000, 10)).toMatchObject({ allowed: true, remaining: 0 })
    const denied = await checkAt(1)
    expect(denied.allowed).toBe(false)
    expect(denied.retryAfterMs).toBeLessThanOrEqual(10_000)
    expect(await checkAt(1 + (denied.retryAfterMs ?? 0))).toMatchObject({ allowed: true })
  })

  it('B119: passes exactly what a raise adds, whatever was denied before', async () => {
    await begin({ capacity: 10, windowMs: 3_600_000 })
    expect(await region.admitted(50)).toBe(10)
    await region.write([aLimit({ algorithm: 'fixed_window', capacity: 20, windowMs: 3_600_000 })])
    expect(await region.admitted(15)).toBe(10)
  })

  it('B118: has nothing left, and not less, when lowered below what was used', async () => {
    await begin({ capacity: 100, windowMs: 60_000 }, 10_000)
    await region.check(50)
    await region.write([aLimit({ algorithm: 'fixed_window', capacity: 10, windowMs: 60_000 })])
    expect(await region.check()).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: 50_000,
    })
  })

  it('keeps its count when the window is made longer', async () => {
    await begin({ capacity: 10, windowMs: 1_000 }, 500)
    await region.check(8)
    await region.write([aLimit({ algorithm: 'fixed_window', capacity: 10, windowMs: 60_000 })])
    expect(await region.check(0)).toMatchObject({ remaining: 2 })
  })
})
