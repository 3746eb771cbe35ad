import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LimitDecision } from '../../../shared/core/ports.ts'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

/** A region whose one limit is this bucket, at noon. */
async function begin(limit: Parameters<typeof aLimit>[0], atMs = 0): Promise<void> {
  await region.time.set(NOON_US + atMs * 1_000)
  await region.begin([aLimit(limit)])
}

/** One check at an instant after noon. */
async function checkAt(ms: number, cost = 1): Promise<LimitDecision> {
  await region.time.set(NOON_US + Math.round(ms * 1_000))
  return region.check(cost)
}

/** How many of as many checks as there are instants are admitted. */
async function admittedAt(instantsMs: readonly number[]): Promise<number> {
  let admitted = 0
  for (const ms of instantsMs) if ((await checkAt(ms)).allowed) admitted++
  return admitted
}

function every(stepMs: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => index * stepMs)
}

describe('a token bucket', () => {
  it('B001: loses no fraction of a token under steady traffic', async () => {
    await begin({ capacity: 10, windowMs: 30_000 })
    const remaining: number[] = []
    for (const ms of every(1_000, 11)) {
      const decision = await checkAt(ms)
      expect(decision.allowed).toBe(true)
      remaining.push(decision.remaining)
    }
    expect(remaining).toEqual([9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2])
  })

  it.each([0, 900, 999.999])('B002: refills within a second, begun at %d ms of one', async (ms) => {
    await begin({ capacity: 10 }, ms)
    expect(await region.admitted(10)).toBe(10)
    await region.time.advanceMs(500)
    expect(await region.admitted(10)).toBe(5)
  })

  it('B004: admits 2000 a second at 2000 a second, and half of 4000', async () => {
    await begin({ capacity: 2_000, burst: 1 })
    expect(await admittedAt(every(0.5, 2_000))).toBe(2_000)
    await begin({ capacity: 2_000, burst: 1 })
    expect(await admittedAt(every(0.25, 4_000))).toBe(2_000)
  })

  it('B005: keeps its state as long as it matters: 1001 at once, 1000 pass', async () => {
    await begin({ capacity: 1_000, windowMs: 60_000 })
    const key = `c:${region.counter()}`
    for (let left = 999; left >= 0; left--) {
      expect(await region.check()).toMatchObject({ allowed: true, remaining: left })
      if (left % 100 === 0) expect(await region.redis.pttl(key)).toBeGreaterThan(60_000)
    }
    expect(await region.check()).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 60 })
  })

  it('B007: admits exactly when a token is due, not a microsecond before', async () => {
    await begin({ capacity: 1, windowMs: 3_600_000 })
    expect(await admittedAt(every(1_000, 3_600))).toBe(1)
    expect(await checkAt(3_599_000)).toMatchObject({ allowed: false, retryAfterMs: 1_000 })
    expect(await checkAt(3_599_999.999)).toMatchObject({ allowed: false, retryAfterMs: 1 })
    expect(await checkAt(3_600_000)).toMatchObject({ allowed: true })

    await begin({ capacity: 10, windowMs: 13_000, burst: 1 })
    expect(await admittedAt(every(1_300, 100))).toBe(100)

    await begin({ capacity: 10 })
    await region.check(10)
    for (const ms of every(100, 11)) await checkAt(ms, 0)
    expect(await checkAt(1_000, 10)).toMatchObject({ allowed: true, remaining: 0 })
  })

  it('B010: is exactly full after 400 days at a huge rate', async () => {
    for (const capacity of [1_000_000_000, Number.MAX_SAFE_INTEGER]) {
      await begin({ capacity })
      expect(await checkAt(0)).toMatchObject({ allowed: true, remaining: capacity - 1 })
      expect(await checkAt(400 * 86_400_000)).toMatchObject({
        allowed: true,
        remaining: capacity - 1,
      })
    }
  })

  it('B011: has a capacity of one at one token in two minutes', async () => {
    await begin({ capacity: 1, windowMs: 120_000 })
    const allowed: boolean[] = []
    for (const ms of [0, 119_999, 120_000, 239_999, 240_000])
      allowed.push((await checkAt(ms)).allowed)
    expect(allowed).toEqual([true, false, true, false, true])
  })

  it('B025: gives no more than its burst after an idle spell', async () => {
    await begin({ capacity: 20, burst: 100 })
    await region.time.advanceMs(5_000)
    expect(await region.check(100)).toMatchObject({ allowed: true, remaining: 0 })
    expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: 50 })

    await begin({ capacity: 3, windowMs: 500 })
    const waits: (number | null)[] = []
    for (const ms of [5_000, 5_016, 5_033, 5_050]) waits.push((await checkAt(ms)).retryAfterMs)
    expect(waits).toEqual([null, null, null, 117])
  })

  it('B026: limits on after a long idle spell', async () => {
    await begin({ capacity: 1 })
    expect(await region.admitted(1)).toBe(1)
    await region.time.advanceMs(30_000)
    expect(await region.admitted(13)).toBe(1)
    for (let second = 0; second < 20; second++) {
      await region.time.advanceMs(1_000)
      expect(await region.admitted(6)).toBe(1)
    }
  })

  it('B028: delivers all of its refill to irregular traffic', async () => {
    await begin({ capacity: 100, windowMs: 10_000 })
    const jitter = [0, 7, -9, 3, 10, -4]
    const instants = Array.from(
      { length: 7_200 },
      (_, index) => 10 + (index * 1_000) / 12 + (jitter[index % jitter.length] ?? 0),
    )
    const admitted = await admittedAt(instants)
    expect(Math.abs(admitted - 6_099)).toBeLessThanOrEqual(6)
  })

  it('B029: denies nothing of a load that equals the refill', async () => {
    await begin({ capacity: 600, burst: 1_000 })
    expect(await admittedAt(every(1_000 / 600, 6_000))).toBe(6_000)
    await begin({ capacity: 600, burst: 1_000 })
    for (let second = 0; second < 10; second++) {
      expect(await region.admitted(600)).toBe(600)
      await region.time.advanceMs(1_000)
    }
  })

  it('B035: admits a cost of its whole capacity when full, and says when that will be', async () => {
    await begin({ capacity: 10, windowMs: 60_000 })
    expect(await checkAt(0, 10)).toMatchObject({ allowed: true })
    expect(await checkAt(30_000, 10)).toMatchObject({ allowed: false, retryAfterMs: 30_000 })
    expect(await checkAt(59_999, 10)).toMatchObject({ allowed: false, retryAfterMs: 1 })
    expect(await checkAt(60_000, 10)).toMatchObject({ allowed: true })
  })

  it('B109: locks nobody out when the clock goes back', async () => {
    await begin({ capacity: 1, burst: 10 })
    await region.check(3)
    expect(await checkAt(-11_000)).toMatchObject({ allowed: true, remaining: 6 })
    expect(await checkAt(0)).toMatchObject({ allowed: true, remaining: 5 })
    expect(await checkAt(-3_600_000)).toMatchObject({ allowed: true, remaining: 4 })
  })

  it('B110: gains one capacity at most from a clock that jumps and is put right', async () => {
    await begin({ capacity: 10, windowMs: 10_000 })
    await region.check(10)
    expect(await checkAt(3_600_000, 10)).toMatchObject({ allowed: true, remaining: 0 })
    const denied = await checkAt(1)
    expect(denied.allowed).toBe(false)
    expect(denied.retryAfterMs).toBeLessThanOrEqual(10_000)
    expect(await checkAt(1 + (denied.retryAfterMs ?? 0))).toMatchObject({ allowed: true })
  })

  it('tells a wait after which the same cost passes, and not a millisecond sooner', async () => {
    for (const capacity of [1, 3, 7, 10, 999]) {
      for (const windowMs of [7, 1_000, 13_000, 86_400_000]) {
        await begin({ capacity, windowMs, burst: 10 })
        await region.check(10)
        for (const cost of [1, 2, 10]) {
          const { retryAfterMs } = await checkAt(0, cost)
          expect((await checkAt((retryAfterMs ?? 0) - 1, 0)).remaining).toBeLessThan(cost)
          expect((await checkAt(retryAfterMs ?? 0, 0)).remaining).toBeGreaterThanOrEqual(cost)
        }
      }
    }
  })
})
