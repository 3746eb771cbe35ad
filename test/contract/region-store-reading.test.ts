import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createEnforcerRoll } from '../../shared/redis/enforcer-roll.ts'
import { groupKeys } from '../../shared/redis/keys.ts'
import { aLimit, NOON_US, RedisRegion, shareOf } from '../support/redis-region.ts'
import { TEST_OFFSET_MS } from '../support/test-time.ts'

/** What RegionStore and PolicyReader read, and what enforcers tell of themselves. Fencing, doubt and boots: region-store.test.ts. */

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())
beforeEach(async () => {
  await region.time.set(NOON_US)
  await region.begin([aLimit()])
})

describe('collecting', () => {
  it('gives cumulative counts of tracked counters, and usage by window', async () => {
    const id = region.counter()
    await region.daemon.writeShares([shareOf(id)])
    const { atUs } = await region.checks.check(region.target(4), region.version)
    await region.check(9)
    await region.check(11)
    await region.checks.giveBack(region.target(2), region.version, atUs)
    await region.check(3, 'globex')
    const first = await region.daemon.collect()
    expect(first.samples).toEqual([{ id, admitted: 4, denied: 9, returned: 2 }])
    const window = Math.floor(NOON_US / 1_000_000)
    const row = { limitId: 1, usageEpoch: 0, window, admitted: 7, denied: 9, returned: 2 }
    expect(first.usage).toEqual([row])
    await region.time.advanceMs(1_000)
    await region.check(5, 'globex')
    const second = await region.daemon.collect()
    expect(second.usage).toEqual([
      { ...row, window: window + 1, admitted: 5, denied: 0, returned: 0 },
    ])
    expect((await region.daemon.collect()).usage).toEqual([])
  })

  it('names a window that ended when tokens come back into it, and that window only (B146)', async () => {
    const { atUs } = await region.checks.check(region.target(4), region.version)
    const window = Math.floor(atUs / 1_000_000)
    await region.daemon.collect()
    await region.time.advanceMs(2_000)
    await region.check(1)
    await region.daemon.collect()
    await region.checks.giveBack(region.target(4), region.version, atUs)
    const { usage } = await region.daemon.collect()
    expect(usage).toMatchObject([{ window, admitted: 4, returned: 4 }])
  })

  it('reads all windows again when more changed than are named', async () => {
    await region.daemon.collect()
    await region.check(4)
    const group = groupKeys(region.target(1).group)
    await region.redis.hset(group.usage, 'changed', '*')
    expect((await region.daemon.collect()).usage).toEqual([])
    const { usage } = await region.daemon.collect()
    expect(usage.map(({ admitted }) => admitted)).toEqual([4])
  })

  it('names what is tracked and has lost its share', async () => {
    const id = region.counter()
    await region.daemon.writeShares([shareOf(id)])
    await region.redis.del(`c:${id}`)
    expect(await region.daemon.collect()).toMatchObject({ samples: [], missing: [id] })
  })

  it('counts no window twice once its place in the ring is taken', async () => {
    await region.check(4)
    await region.time.advanceMs(64_000)
    await region.check(1)
    const { usage } = await region.daemon.collect()
    expect(usage.map(({ admitted }) => admitted)).toEqual([1])
  })

  it('places a deadline of the daemon never too late on Redis TIME', async () => {
    const { storeOffsetMs } = await region.daemon.collect()
    expect(storeOffsetMs).toBeLessThanOrEqual(TEST_OFFSET_MS)
  })
})

describe('policies', () => {
  it('are read whole, with the version under which they are enforced', async () => {
    const { version, incarnation, policies } = await region.reader.readAll()
    expect(await region.reader.readHead()).toEqual({ version, revision: expect.any(Number) })
    expect({ version, incarnation }).toEqual({ version: region.version, incarnation: 1 })
    expect(policies).toMatchObject([{ id: 1, domain: 'api', limits: [{ id: 1, capacity: 10 }] }])
  })

  it('that are gone are not read any more', async () => {
    await region.write([aLimit({ id: 2 })])
    await region.write([])
    expect((await region.reader.readAll()).policies).toEqual([])
  })

  it('are unavailable to read while Redis is away', async () => {
    await region.redis.flushall()
    await region.time.set(NOON_US)
    expect(await region.reader.readHead()).toEqual({ version: 0, revision: 0 })
    const none = { version: 0, incarnation: 0, policies: [] }
    expect(await region.reader.readAll()).toMatchObject(none)
  })
})

describe('the roll of enforcers', () => {
  const status = { name: 'host:8080', revision: 7, sinceMs: 1_000, refused: null }

  it('gives what each live enforcer said last, and nothing of one that left', async () => {
    const roll = createEnforcerRoll({ redis: region.redis })
    expect(await roll.beat({ id: 'e1', ...status })).toBe(1)
    expect(await roll.beat({ id: 'e2', ...status })).toBe(2)
    const refused = { revision: 8, reason: 'of format 2' }
    await roll.beat({ id: 'e2', ...status, refused })
    expect(await region.daemon.readEnforcers()).toEqual({
      enforcers: [
        { id: 'e1', ...status },
        { id: 'e2', ...status, refused },
      ],
      unlisted: 0,
    })
    await roll.leave('e2')
    const { enforcers } = await region.daemon.readEnforcers()
    expect(enforcers.map(({ id }) => id)).toEqual(['e1'])
    await roll.leave('e1')
  })
})
