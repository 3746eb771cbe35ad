import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { aLimit, NOON_US, RedisRegion } from '../../support/redis-region.ts'

/** Counters of eventual policies on a real Redis. */

const MINUTE_MS = 60_000
const STARTS_MS = NOON_US / 1_000

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const spec = aLimit({
  algorithm: 'fixed_window',
  capacity: 5,
  windowMs: MINUTE_MS,
  home: 0,
  estimate: true,
})
beforeEach(async () => {
  await region.time.set(NOON_US)
  await region.begin([spec])
})

const tell = (used: number, startMs = STARTS_MS) =>
  region.daemon.exchangeCounts([{ id: region.counter(), startMs, used }])

describe('a counter of an eventual policy', () => {
  it('admits the whole limit in each region while it knows of no other', async () => {
    expect(await region.admitted(8)).toBe(5)
  })

  it('counts what others are known to have admitted, and says what it did itself', async () => {
    await region.admitted(1)
    expect(await tell(2)).toEqual([{ id: region.counter(), startMs: STARTS_MS, used: 1 }])
    expect(await region.check(0)).toMatchObject({ remaining: 2 })
    expect(await region.admitted(5)).toBe(2)
    expect(await tell(4)).toMatchObject([{ used: 3 }])
  })

  it('never hears less than it did', async () => {
    await tell(4)
    await tell(1)
    expect(await region.admitted(5)).toBe(1)
  })

  it('begins anew with each window, and takes no count of another one', async () => {
    await tell(5)
    expect(await region.admitted(1)).toBe(0)
    await region.time.advanceMs(MINUTE_MS)
    await tell(5)
    expect(await region.admitted(9)).toBe(5)
  })

  it('names itself to the daemon with its first use in a window, until the daemon keeps it', async () => {
    const noticed = async () => (await region.daemon.collect()).noticed
    await region.check()
    expect(await noticed()).toEqual([region.counter()])
    await tell(0)
    await region.check()
    expect(await noticed()).toEqual([])
    await region.time.advanceMs(MINUTE_MS)
    await region.check()
    expect(await noticed()).toEqual([region.counter()])
  })

  it('is full until its window ends after a boot that may have forgotten its count', async () => {
    await region.admitted(2)
    await region.time.advanceMs(1_000)
    await region.boot(2)
    await region.write([spec])
    await region.daemon.serve()
    expect(await region.admitted(1)).toBe(0)
    await region.time.advanceMs(MINUTE_MS)
    expect(await region.admitted(9)).toBe(5)
  })

  it('is given tokens back in its own window only', async () => {
    const { atUs } = await region.checks.check(region.target(3), region.version)
    await region.checks.giveBack(region.target(3), region.version, atUs)
    expect(await region.admitted(9)).toBe(5)
    await region.time.advanceMs(MINUTE_MS)
    await region.admitted(2)
    await region.checks.giveBack(region.target(3), region.version, atUs)
    expect(await region.admitted(9)).toBe(3)
  })

  // B080, B082
  it('leaves no key without an expiry', async () => {
    await region.admitted(1)
    await tell(1)
    const left = await region.redis.pttl(`c:${region.counter()}`)
    expect(left).toBeGreaterThan(0)
  })
})
