import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, emptyRow, NOON_US, RedisRegion } from '../../support/redis-region.ts'
import { TEST_OFFSET_MS } from '../../support/test-time.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())
beforeEach(() => region.time.set(NOON_US))

const HALF = POOL_UNITS / 2

/** An instant on the daemon's clock, from now. */
function inMs(ms: number): number {
  return region.time.us / 1_000 - TEST_OFFSET_MS + ms
}

/** Burst 10 at 10 a second, of which this region has half. */
async function beginHalf(): Promise<string> {
  await region.begin([aLimit({ home: HALF })])
  return region.counter()
}

describe('the share of a bucket', () => {
  it('refills at the old rate up to the change (lazily at the new one it would mint 4.8 tokens)', async () => {
    const id = await beginHalf()
    await region.check(5)
    await region.time.advanceMs(960)
    await region.share({ id, home: POOL_UNITS })
    // 960 ms at 5 a second: 4.8 tokens. At 10 a second it would be 9.6.
    expect(await region.check(0)).toMatchObject({ remaining: 4 })
    await region.time.advanceMs(20)
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
  })

  it('is not born full by a grow: an absent bucket is created from the old share', async () => {
    const id = await beginHalf()
    await region.share({ id, home: POOL_UNITS })
    expect(await region.check(6)).toMatchObject({ allowed: false, remaining: 5 })
    await region.time.advanceMs(100)
    expect(await region.check(6)).toMatchObject({ allowed: true, remaining: 0 })
  })

  it('clamps at a shrink, and what was clamped does not come back with a grow', async () => {
    await region.begin([aLimit({ capacity: 100 })])
    const id = region.counter()
    await region.share({ id, home: 100_000, shrinks: true })
    expect(await region.check(0)).toMatchObject({ remaining: 10 })
    await region.share({ id, home: POOL_UNITS })
    expect(await region.check(0)).toMatchObject({ remaining: 10 })
  })

  it('lapses at its deadline without the daemon, and is settled piecewise over it (B152)', async () => {
    const id = await beginHalf()
    await region.share({ id, home: HALF, borrowed: HALF, expiresAtMs: inMs(300) })
    await region.check(5)
    await region.time.advanceMs(500)
    // 300 ms at 10 a second and 200 ms at 5 a second: 4 tokens.
    expect(await region.check(0)).toMatchObject({ remaining: 4 })
    await region.time.advanceMs(10_000)
    expect(await region.check(6)).toMatchObject({
      allowed: false,
      remaining: 5,
      retryAfterMs: null,
    })
  })

  it('keeps its tokens within the home part once a full bucket loses a loan', async () => {
    const id = await beginHalf()
    await region.share({ id, home: HALF, borrowed: HALF, expiresAtMs: inMs(1_000) })
    await region.time.advanceMs(999)
    expect(await region.check(0)).toMatchObject({ remaining: 10 })
    await region.time.advanceMs(1)
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
  })

  it('is the policy again once the key is no longer tracked', async () => {
    const id = await beginHalf()
    await region.share({ id, home: POOL_UNITS, pinned: true })
    await region.time.advanceMs(1_000)
    expect(await region.check(0)).toMatchObject({ remaining: 10 })
    await region.share({ id, row: null })
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
    expect(await region.redis.hlen(`l:${id.slice(0, 5)}`)).toBe(0)
    expect(await region.redis.pttl(`c:${id}`)).toBeGreaterThan(0)
  })

  it('has no expiry while it is pinned, and one again when it is not', async () => {
    const id = await beginHalf()
    await region.share({ id, pinned: true })
    await region.check(5)
    expect(await region.redis.pttl(`c:${id}`)).toBe(-1)
    await region.share({ id, pinned: false })
    expect(await region.redis.pttl(`c:${id}`)).toBeGreaterThan(0)
  })

  it('sums over regions to the burst, whoever empties a bucket first', async () => {
    // The adversary drains the lender just before a loan and the borrower just after.
    const id = await beginHalf()
    let admitted = await region.admitted(20)
    await region.share({ id, home: HALF / 2, shrinks: true })
    admitted += await region.admitted(20)
    await region.share({ id, home: HALF, borrowed: HALF, expiresAtMs: inMs(5_000) })
    admitted += await region.admitted(20)
    expect(admitted).toBe(5)
  })
})

describe('the share of a window', () => {
  async function beginWindow(atMs = 10_000): Promise<string> {
    await region.time.set(NOON_US + atMs * 1_000)
    await region.begin([aLimit({ algorithm: 'fixed_window', capacity: 10, windowMs: 60_000 })])
    return region.counter()
  }

  it('does not shrink below what the window has admitted', async () => {
    const id = await beginWindow()
    await region.check(6)
    expect(await region.share({ id, home: HALF, shrinks: true })).toBe('occupied')
    expect(await region.check(0)).toMatchObject({ remaining: 4 })
    expect(await region.redis.hlen(`l:${id.slice(0, 5)}`)).toBe(0)
    expect(await region.share({ id, home: 600_000, shrinks: true })).toBe('written')
    expect(await region.check(0)).toMatchObject({ remaining: 0 })
  })

  it('does not shrink below what the last window admitted, until no peer can be in it', async () => {
    const id = await beginWindow()
    await region.check(6)
    await region.time.set(NOON_US + 60_050_000)
    expect(await region.share({ id, home: HALF, shrinks: true })).toBe('occupied')
    await region.time.set(NOON_US + 60_100_000)
    expect(await region.share({ id, home: HALF, shrinks: true })).toBe('written')
  })

  it('does not shrink in a window that began before the boot', async () => {
    const id = await beginWindow()
    await region.boot(1)
    await region.daemon.serve()
    expect(await region.share({ id, home: HALF, shrinks: true })).toBe('occupied')
    expect(await region.check()).toMatchObject({ allowed: false, retryAfterMs: 50_000 })
    // Nor just after its edge: a peer with a slower clock may be in it, and what was admitted is forgotten.
    await region.time.set(NOON_US + 60_050_000)
    expect(await region.share({ id, home: HALF, shrinks: true })).toBe('occupied')
    await region.time.set(NOON_US + 61_000_000)
    expect(await region.share({ id, home: HALF, shrinks: true })).toBe('written')
  })

  it('falls back to the home part when a loan lapses in the middle of a window', async () => {
    const id = await beginWindow()
    await region.share({ id, home: HALF, borrowed: HALF, expiresAtMs: inMs(1_000) })
    await region.check(7)
    expect(await region.check(0)).toMatchObject({ remaining: 3 })
    await region.time.advanceMs(1_000)
    expect(await region.check()).toMatchObject({ allowed: false, remaining: 0 })
  })
})

describe('writing shares', () => {
  it('judges each counter by itself and keeps to its slot group', async () => {
    await region.time.set(NOON_US + 10_000_000)
    await region.begin([aLimit({ algorithm: 'fixed_window', capacity: 10, windowMs: 60_000 })])
    await region.check(9, 'key-3')
    const ids = Array.from({ length: 200 }, (_, index) => region.counter(`key-${index}`))
    const outcomes = await region.daemon.writeShares(
      ids.map((id) => ({
        id,
        home: HALF,
        borrowed: 0,
        expiresAtMs: null,
        shrinks: true,
        pinned: true,
        row: emptyRow(id),
      })),
    )
    expect(outcomes.size).toBe(200)
    expect(ids.filter((id) => outcomes.get(id) === 'occupied')).toEqual([ids[3]])
    const { samples, missing } = await region.daemon.collect()
    expect(samples).toHaveLength(199)
    expect(missing).toEqual([])
  })

  it('forgets a counter whose limit is no more', async () => {
    const id = await beginHalf()
    await region.share({ id, pinned: true })
    await region.write([])
    expect(await region.share({ id, row: null })).toBe('written')
    expect(await region.redis.exists(`c:${id}`)).toBe(0)
  })
})

describe('a region that recovers', () => {
  it('uses nothing from its boot on, before its policies are written again', async () => {
    await region.begin([aLimit({ capacity: 100 })])
    await region.daemon.open()
    await region.daemon.begin({ incarnation: 2, levels: 'empty', recovering: true })
    await region.daemon.serve()
    await region.time.advanceMs(10_000)
    expect(await region.check(0)).toMatchObject({ remaining: 0 })
    expect(await region.check(1)).toMatchObject({ allowed: false })
  })

  it('uses nothing, and does not refill the wait at its end', async () => {
    await region.begin([aLimit({ capacity: 100 })], { levels: 'empty' })
    const id = region.counter()
    await region.write([aLimit({ capacity: 100 })], true)
    await region.share({ id, home: POOL_UNITS, borrowed: 0 })
    await region.time.advanceMs(10_000)
    expect(await region.check(0)).toMatchObject({ remaining: 0 })
    expect(await region.check(0, 'cold')).toMatchObject({ remaining: 0 })
    await region.write([aLimit({ capacity: 100 })], false)
    expect(await region.check(0, 'cold')).toMatchObject({ remaining: 0 })
    await region.time.advanceMs(100)
    expect(await region.check(0, 'cold')).toMatchObject({ remaining: 10 })
  })
})
