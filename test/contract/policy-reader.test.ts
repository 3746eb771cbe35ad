import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { RegionPolicies } from '../../shared/core/ports.ts'
import { REGION_KEYS } from '../../shared/redis/keys.ts'
import { randomOf } from '../support/random.ts'
import { monitorRedis } from '../support/redis-monitor.ts'
import { aLimit, policyOf, RedisRegion } from '../support/redis-region.ts'

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

/** More than one reply holds. */
const MANY = 1_000

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())
beforeEach(() => region.begin([aLimit()]))

const limitsOf = (ids: readonly number[], capacity: number) =>
  ids.map((id) => aLimit({ id, capacity }))
const idsBelow = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const write = (ids: readonly number[], capacity: number) =>
  region.daemon.writePolicies({
    revision: capacity,
    members: ['here'],
    plane: [],
    region: limitsOf(ids, capacity).map((limit) => policyOf(limit)),
    recovering: false,
  })

/** Counts the policies that Redis is asked for while `work` runs. */
async function policiesReadBy<T>(work: () => Promise<T>): Promise<{ read: number; result: T }> {
  const monitor = await monitorRedis(region.server.url)
  const result = await work()
  await region.redis.echo('over')
  await expect.poll(() => monitor.seen.some(([name]) => name === 'echo')).toBe(true)
  monitor.close()
  const reads = monitor.seen.filter(
    ([name, key]) => name?.toLowerCase() === 'hmget' && key === REGION_KEYS.policies,
  )
  return { read: reads.reduce((all, args) => all + args.length - 2, 0), result }
}

describe('an enforcer that reads the policies again', () => {
  it('reads the changed ones alone, keeps the others as they are, and drops those that are gone', async () => {
    await write(idsBelow(50), 100)
    const before = await region.reader.readAll()
    const [first, ...others] = limitsOf(idsBelow(49), 100)
    await region.write([aLimit({ ...first, capacity: 7 }), ...others])
    const { read, result } = await policiesReadBy(() => region.reader.readAll(before))
    expect(read).toBe(2)
    expect(result).toEqual(await region.reader.readAll())
    expect(result.policies).toHaveLength(49)
    expect(result.policies[0]?.limits[0]?.capacity).toBe(7)
    expect(result.policies[1]).toBe(before.policies[1])
    const again = await policiesReadBy(() => region.reader.readAll(result))
    expect(again.read).toBe(0)
    expect(again.result).toEqual(result)
  })

  it('reads all of them after a daemon that does not keep what changed, and after a Redis that lost it', async () => {
    await write(idsBelow(3), 100)
    const known = await region.reader.readAll()
    // As a daemon of an earlier version leaves it: the policies are others, and nothing says which.
    const [policy] = known.policies
    const changed = { ...policy, revision: 99 }
    await region.redis.hset(REGION_KEYS.policies, '1', JSON.stringify(changed))
    await region.redis.hset(REGION_KEYS.region, 'version', String(known.version + 1))
    expect((await region.reader.readAll(known)).policies[0]).toEqual(changed)
    // What is written after it is not taken for all that changed.
    await write(idsBelow(4), 100)
    const whole = await region.reader.readAll()
    expect(await region.reader.readAll(known)).toEqual(whole)
    await region.begin([aLimit({ capacity: 5 })], { incarnation: 2 })
    const lost = await region.reader.readAll(whole)
    expect(lost).toEqual(await region.reader.readAll())
    expect(lost.policies.map(({ id }) => id)).toEqual([1])
  })

  it('has all of one version, however the policies change while it reads', async () => {
    await write(idsBelow(MANY), 1)
    let known: RegionPolicies | null = null
    for (let capacity = 2; capacity < 12; capacity++) {
      const reading: Promise<RegionPolicies> = region.reader.readAll(
        capacity % 2 === 0 ? null : known,
      )
      const [read] = await Promise.all([reading, write(idsBelow(MANY), capacity)])
      expect(read.policies).toHaveLength(MANY)
      const capacities = new Set(read.policies.map(({ limits }) => limits[0]?.capacity))
      expect([...capacities]).toEqual([read.revision])
      known = read
    }
    expect((await region.reader.readAll(known)).revision).toBe(11)
  })

  it('is done although one of them changes without end', async () => {
    await write(idsBelow(5), 1)
    let isOver = false
    let capacity = 1
    const change = async () => {
      while (!isOver) {
        const [first, ...others] = limitsOf(idsBelow(5), 1)
        await region.write([{ ...first, ...aLimit({ capacity: ++capacity }) }, ...others])
      }
    }
    const changing = change()
    let known = await region.reader.readAll()
    for (let reading = 0; reading < 30; reading++) {
      const written = capacity - 1
      known = await region.reader.readAll(known)
      expect(known.policies[0]?.limits[0]?.capacity).toBeGreaterThanOrEqual(written)
    }
    isOver = true
    await changing
  })

  it(`has what one that reads all has, after any changes (SEED=${SEED})`, async () => {
    const random = randomOf(SEED)
    let ids = new Set<number>()
    let known: RegionPolicies | null = null
    let next = 1
    for (let round = 0; round < 60; round++) {
      for (let times = random.below(4); times >= 0; times--) {
        ids = new Set([...ids].filter(() => random.below(4) > 0))
        for (let added = random.below(4); added > 0; added--) ids.add(next++)
        await write([...ids], 1 + random.below(3))
      }
      if (random.below(10) === 0) await region.begin([aLimit()], { incarnation: 2 + round })
      known = await region.reader.readAll(known)
      expect(known).toEqual(await region.reader.readAll())
    }
  })

  it('keeps no more removals than twice the policies and a thousand', async () => {
    for (let round = 0; round < 4; round++) {
      await write(
        idsBelow(600).map((id) => round * 600 + id),
        1,
      )
    }
    expect(await region.redis.zcard(REGION_KEYS.versions)).toBeLessThanOrEqual(2_200)
    await write([1], 1)
    const known = await region.reader.readAll()
    expect(await region.redis.zcard(REGION_KEYS.versions)).toBeLessThanOrEqual(1_002)
    expect(known.policies).toHaveLength(1)
  })
})
