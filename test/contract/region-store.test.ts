import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { PairState } from '../../shared/core/ledger/types.ts'
import type { RegionStore } from '../../shared/core/ports.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { GROUP_KEYS, REGION_KEYS } from '../../shared/redis/keys.ts'
import {
  aLimit,
  connectDaemon,
  emptyRow,
  NOON_US,
  policyOf,
  RedisRegion,
} from '../support/redis-region.ts'
import { TEST_OFFSET_MS } from '../support/test-time.ts'

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())
beforeEach(async () => {
  await region.time.set(NOON_US)
  await region.restartDaemon()
  await region.begin([aLimit()])
})

const fenced = { code: 'QUOTA_FENCED' }
const unavailable = { code: 'QUOTA_STORE_UNAVAILABLE' }

const PAIR: PairState = {
  lend: { term: 3, borrowerIncarnation: 7, born: 2 },
  borrow: { incarnation: 9, term: 4, dead: false },
}

function shareOf(id: string, home = POOL_UNITS) {
  return {
    id,
    home,
    borrowed: 0,
    expiresAtMs: null,
    shrinks: false,
    pinned: true,
    row: emptyRow(id),
  }
}

/** Everything that a daemon writes, by name. */
function writesOf(store: RegionStore): readonly (readonly [string, () => Promise<unknown>])[] {
  return [
    ['begin', () => store.begin({ incarnation: 9, levels: 'empty', recovering: true })],
    ['serve', () => store.serve()],
    ['reserveSeq', () => store.reserveSeq(99_000)],
    ['collect', () => store.collect()],
    ['writePairs', () => store.writePairs({ there: PAIR })],
    ['writeShares', () => store.writeShares([shareOf(region.counter())])],
    [
      'writePolicies',
      () =>
        store.writePolicies({
          revision: 99,
          members: ['here', 'there'],
          plane: [],
          region: [policyOf(aLimit({ capacity: 99 }))],
          recovering: true,
        }),
    ],
  ]
}

/** All that Redis holds but the time of the test. */
async function dump(): Promise<Readonly<Record<string, string>>> {
  const keys = (await region.redis.keys('*')).filter((key) => !/^test:|:leader$|:fence$/.test(key))
  const values = await Promise.all(keys.sort().map((key) => region.redis.dumpBuffer(key)))
  return Object.fromEntries(keys.map((key, index) => [key, values[index]?.toString('hex') ?? '']))
}

describe('leadership', () => {
  it('has one holder at a time and passes on when it is given up or runs out', async () => {
    expect(await region.daemon.claimLeadership('one', 60_000)).toBe(true)
    expect(await region.daemon.claimLeadership('two', 60_000)).toBe(false)
    expect(await region.daemon.claimLeadership('one', 60_000)).toBe(true)
    await region.daemon.releaseLeadership('two')
    expect(await region.daemon.claimLeadership('two', 60_000)).toBe(false)
    await region.daemon.releaseLeadership('one')
    expect(await region.daemon.claimLeadership('two', 60_000)).toBe(true)
    expect(await region.redis.pttl(REGION_KEYS.leader)).toBeGreaterThan(50_000)
  })
})

describe('a fence', () => {
  it('of an older daemon writes nothing any more, in no slot group', async () => {
    const next = await connectDaemon(region.server.url, region.time)
    await next.open()
    const before = await dump()
    for (const [name, write] of writesOf(region.daemon)) {
      await expect(write(), name).rejects.toMatchObject(fenced)
    }
    expect(await dump()).toEqual(before)
    await next.close()
  })

  it('rises above what any slot group kept, though the region lost its own', async () => {
    const { fence } = await region.daemon.open()
    await region.redis.del(REGION_KEYS.fence)
    expect((await region.daemon.open()).fence).toBeGreaterThan(fence)
  })

  it('that a slot group has lost refuses writes until the store is opened again', async () => {
    await region.redis.del(...GROUP_KEYS.map(({ meta }) => meta))
    await expect(region.daemon.collect()).rejects.toMatchObject(fenced)
    expect(await region.daemon.open()).toMatchObject({ scriptsLoaded: false })
  })

  it('does not disturb checks: they go on under the scripts that were served', async () => {
    await region.daemon.open()
    expect(await region.check()).toMatchObject({ allowed: true })
  })
})

describe('doubt', () => {
  it('refuses everything after a write without a reply, until the store is opened again', async () => {
    region.server.pause()
    const lost = region.daemon.writePairs({ there: PAIR })
    await expect(lost).rejects.toMatchObject(unavailable)
    region.server.resume()
    for (const [name, write] of writesOf(region.daemon)) {
      await expect(write(), name).rejects.toMatchObject(fenced)
    }
    await region.restartDaemon()
    const { pairs, fence } = await region.daemon.open()
    // The late write may have come or not; what counts is that a newer fence read it.
    expect(fence).toBeGreaterThan(1)
    expect([{}, { there: PAIR }]).toContainEqual(pairs)
    await region.daemon.writePairs({ there: PAIR })
  })

  it('is not cleared by a call of before it that succeeds late', async () => {
    await region.redis.set(GROUP_KEYS[0]?.meta ?? '', 'spoilt')
    const results = await Promise.allSettled([region.daemon.collect(), region.daemon.reserveSeq(5)])
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    await expect(region.daemon.reserveSeq(6)).rejects.toMatchObject(fenced)
  })

  it('is where a store begins: nothing is written before it was opened', async () => {
    await region.restartDaemon()
    for (const [name, write] of writesOf(region.daemon)) {
      await expect(write(), name).rejects.toMatchObject(fenced)
    }
  })

  it('ends with the connection: a closed store is never used again', async () => {
    await region.daemon.close()
    await expect(region.daemon.open()).rejects.toMatchObject(unavailable)
  })
})

describe('opening', () => {
  it('finds what was written, and that the store was kept', async () => {
    const id = region.counter()
    await region.daemon.writePairs({ there: PAIR })
    await region.daemon.writeShares([shareOf(id)])
    await region.daemon.reserveSeq(5_000)
    await region.restartDaemon()
    expect(await region.daemon.open()).toEqual({
      fence: 2,
      scriptsLoaded: true,
      incarnation: 1,
      recovering: false,
      seqReserved: 5_000,
      policyVersion: region.version,
      policyRevision: 1,
      planePolicies: [],
      members: ['here'],
      pairs: { there: PAIR },
      rows: [emptyRow(id)],
      storeOffsetMs: TEST_OFFSET_MS,
      bootedAtStoreMs: 0,
    })
    expect((await region.daemon.collect()).samples.map((sample) => sample.id)).toEqual([id])
  })

  it.each([
    ['the scripts were flushed', () => region.redis.script('FLUSH')],
    ['a slot group lost its meta', () => region.redis.del(GROUP_KEYS[5]?.meta ?? '')],
    ['the region lost its fields', () => region.redis.del(REGION_KEYS.region)],
    ['a boot was begun and not served', () => region.boot(2)],
    [
      'the clock went back to before the boot',
      async () => {
        await region.boot(2)
        await region.daemon.serve()
        await region.time.advanceMs(-60_000)
        await expect(region.daemon.collect()).rejects.toMatchObject(fenced)
      },
    ],
    [
      'the server has another history',
      async () => {
        await region.redis.call('REPLICAOF', '127.0.0.1', '1')
        await region.redis.call('REPLICAOF', 'NO', 'ONE')
        await expect(region.daemon.reserveSeq(7)).rejects.toMatchObject(fenced)
      },
    ],
  ])('does not take the store for kept when %s', async (_, spoil) => {
    await spoil()
    expect((await region.daemon.open()).scriptsLoaded).toBe(false)
  })

  it('finds nothing on a Redis that never had a daemon', async () => {
    await region.redis.flushall()
    await region.time.set(NOON_US)
    expect(await region.daemon.open()).toMatchObject({
      scriptsLoaded: false,
      incarnation: 0,
      policyVersion: 0,
      seqReserved: 0,
      members: [],
      pairs: {},
      rows: [],
    })
  })

  it('is refused by a replica', async () => {
    await region.redis.call('REPLICAOF', '127.0.0.1', '1')
    await expect(region.daemon.open()).rejects.toMatchObject(unavailable)
    await region.redis.call('REPLICAOF', 'NO', 'ONE')
  })
})

describe('a boot', () => {
  it('empties buckets: they refill from its instant, those never seen included', async () => {
    await region.check(1)
    await region.time.advanceMs(60_000)
    await region.boot(1)
    await region.daemon.serve()
    expect(await region.check(1)).toMatchObject({ allowed: false, retryAfterMs: 101 })
    expect(await region.check(1, 'cold')).toMatchObject({ allowed: false, retryAfterMs: 101 })
    await region.time.advanceMs(301)
    expect(await region.check(0)).toMatchObject({ remaining: 3 })
    expect(await region.check(0, 'cold')).toMatchObject({ remaining: 3 })
  })

  it('voids the shares, rows and pairs of before', async () => {
    const id = region.counter()
    await region.daemon.writePairs({ there: PAIR })
    await region.daemon.writeShares([shareOf(id, 100_000)])
    expect(await region.check(0)).toMatchObject({ remaining: 1 })
    await region.boot(2, 'full')
    await region.daemon.serve()
    await region.time.advanceMs(5_000)
    expect(await region.check(1)).toMatchObject({ remaining: 9 })
    // The old share has no expiry; the first check under the new boot gives the counter one.
    expect(await region.redis.pttl(`c:${id}`)).toBeGreaterThan(0)
    expect(await region.daemon.open()).toMatchObject({ incarnation: 2, pairs: {}, rows: [] })
  })

  it('has the shares that are written before it is served', async () => {
    const id = region.counter()
    await region.boot(1)
    await region.daemon.writeShares([shareOf(id, 100_000)])
    await region.daemon.serve()
    await region.time.advanceMs(60_000)
    expect(await region.check(0)).toMatchObject({ remaining: 1 })
  })
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
      row,
      { ...row, window: window + 1, admitted: 5, denied: 0, returned: 0 },
    ])
    await region.time.advanceMs(5_000)
    expect((await region.daemon.collect()).usage).toEqual([
      { ...row, window: window + 1, admitted: 5, denied: 0, returned: 0 },
    ])
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
    expect(await region.reader.readVersion()).toBe(version)
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
    expect(await region.reader.readVersion()).toBe(0)
    expect(await region.reader.readAll()).toEqual({ version: 0, incarnation: 0, policies: [] })
  })
})
