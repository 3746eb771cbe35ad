import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { windowEdges } from '../../../shared/core/algorithms/edges.ts'
import type { LimitDecision } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, RedisRegion } from '../../support/redis-region.ts'
import { TwinRegion } from '../../support/twin-region.ts'

/** Fixed windows of a calendar, as loans hold them: hours of a zone that is half an hour off. */

const HOUR_MS = 3_600_000
const calendar = { unit: 'hour', timeZone: 'Asia/Kolkata' } as const
const SPEC = { algorithm: 'fixed_window', capacity: 10, windowMs: HOUR_MS, calendar } as const

let region: RedisRegion
/** Edges about the present: an enforcer names windows by its own clock, which is that of this host. */
const { startUs, endUs } = windowEdges(SPEC, Date.now() * 1_000)
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

async function begin(us: number): Promise<void> {
  await region.time.set(us)
  await region.begin([aLimit(SPEC)])
}

async function checkAt(us: number, cost = 1): Promise<LimitDecision> {
  await region.time.set(us)
  return region.check(cost)
}

describe('a window of a calendar', () => {
  it('begins at its half hour, and says when it ends', async () => {
    expect(startUs % (HOUR_MS * 1_000)).toBe((HOUR_MS / 2) * 1_000)
    await begin(endUs - 1_000_000)
    expect(await region.admitted(12)).toBe(10)
    expect(await region.check()).toMatchObject({ retryAfterMs: 1_000, resetMs: 1_000 })
    expect((await checkAt(endUs - 1)).allowed).toBe(false)
    expect(await checkAt(endUs)).toMatchObject({ allowed: true, remaining: 9, resetMs: HOUR_MS })
  })

  it('B113: is one for each decision: the clock of Redis alone decides at its edge', async () => {
    await begin(endUs - 1)
    await region.check(10)
    const [last, first] = [await region.check(0), await checkAt(endUs, 0)]
    expect([last.remaining, last.resetMs, first.remaining, first.resetMs]).toEqual([
      0,
      1,
      10,
      HOUR_MS,
    ])
  })

  it('guards its edge against peers with slower clocks, and its share within', async () => {
    await begin(endUs - 5_000_000)
    await region.check(6)
    const id = region.counter()
    const half = { id, home: POOL_UNITS / 2, shrinks: true }
    expect(await region.share(half)).toBe('occupied')
    await region.time.set(endUs + 50_000)
    expect(await region.share(half)).toBe('occupied')
    await region.time.set(endUs + 100_000)
    expect(await region.share(half)).toBe('written')
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
  })

  it('is decided as the pure algorithm does, before and after its edges', async () => {
    await begin(startUs + 1)
    const twin = new TwinRegion()
    for (const us of [-HOUR_MS * 500, -1, 0, 1, 999_999, HOUR_MS * 900, HOUR_MS * 1_000 - 1]) {
      for (const from of [startUs, endUs]) {
        if (from + us >= endUs + HOUR_MS * 1_000) continue
        await region.time.set(from + us)
        const check = region.target(3)
        const { decisions } = await region.checks.check(check, region.version)
        expect(decisions).toEqual(twin.check(check, from + us))
      }
    }
  })

  it('is not named by a host whose clock is off by more than a window: the store is unavailable', async () => {
    await begin(startUs + 1)
    const unavailable = { code: 'QUOTA_STORE_UNAVAILABLE' }
    for (const us of [endUs + 2 * HOUR_MS * 1_000, startUs - HOUR_MS * 1_000 - 1]) {
      await expect(checkAt(us)).rejects.toMatchObject(unavailable)
    }
    expect(await region.redis.keys('c:*')).toEqual([])
  })
})
