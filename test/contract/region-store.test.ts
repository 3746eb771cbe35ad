import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { PairState } from '../../shared/core/ledger/types.ts'
import type { RegionStore } from '../../shared/core/ports.ts'
import { GROUP_KEYS, REGION_KEYS } from '../../shared/redis/keys.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import {
  aLimit,
  connectDaemon,
  emptyRow,
  NOON_US,
  policyOf,
  RedisRegion,
  shareOf,
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

/** Everything that a daemon writes, by name. */
function writesOf(store: RegionStore): readonly (readonly [string, () => Promise<unknown>])[] {
  return [
    ['begin', () => store.begin({ incarnation: 9, levels: 'empty', recovering: true })],
    ['serve', () => store.serve()],
    ['reserveSeq', () => store.reserveSeq(99_000)],
    ['collect', () => store.collect()],
    ['writePairs', () => store.writePairs({ there: PAIR })],
    ['writeCheckTokens', () => store.writeCheckTokens({ asOfMs: 99, tokens: [] })],
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

describe('a store of another region', () => {
  it('is refused by name before anything is read or written', async () => {
    const { server, time } = region
    const wrong = connectRegionStore({ url: server.url, region: 'elsewhere', clock: time.clock })
    await expect(wrong).rejects.toMatchObject({
      code: 'QUOTA_FENCED',
      message: expect.stringMatching(/region here, not of elsewhere/),
    })
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

  it('rises above those of before a loss of all data, so that no late write has the one in force', async () => {
    const { fence } = await region.daemon.open()
    await region.redis.flushall()
    await region.time.set(NOON_US + 1_000_000)
    const next = await connectDaemon(region.server.url, region.time)
    expect((await next.open()).fence).toBeGreaterThan(fence)
    await expect(region.daemon.reserveSeq(9)).rejects.toMatchObject(fenced)
    await next.close()
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
    await region.daemon.writeCheckTokens({ asOfMs: 100, tokens: [] })
    await region.restartDaemon()
    expect(await region.daemon.open()).toEqual({
      fence: NOON_US / 1_000 + 1,
      scriptsLoaded: true,
      incarnation: 1,
      recovering: false,
      seqReserved: 5_000,
      policyVersion: region.version,
      policyRevision: 1,
      checkTokensAsOfMs: 100,
      planePolicies: [],
      members: ['here'],
      pairs: { there: PAIR },
      stock: new Map(),
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
      checkTokensAsOfMs: 0,
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
