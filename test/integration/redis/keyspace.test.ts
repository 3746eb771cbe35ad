import { createHash } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { counterId, counterName, slotGroup } from '../../../shared/core/counter-id.ts'
import { ALGORITHMS, type RegionLimit } from '../../../shared/core/policy.ts'
import type { CheckStore, GroupCheck, RegionStore } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { createPolicyReader } from '../../../shared/redis/policy-reader.ts'
import { connectRegionStore } from '../../../shared/redis/region-store.ts'
import { aLimit, emptyRow, policyOf, readyRedis } from '../../support/redis-region.ts'
import { startRedisServer } from '../../support/redis-server.ts'

/** The scripts as they are shipped, on real time: what they leave in Redis. */

const server = await startRedisServer()
const redis = await readyRedis(server.url)
const checks: CheckStore = createCheckStore({ redis, deadlineMs: 10_000 })
let daemon: RegionStore
let limits: readonly RegionLimit[] = []
let version = 0

beforeAll(async () => {
  daemon = await connectRegionStore({
    url: server.url,
    region: 'here',
    clock: { monotonicMs: () => performance.now() },
  })
})
afterAll(async () => {
  await daemon.close()
  redis.disconnect()
  await server.stop()
})

/** A key that somebody holds tokens of is not idle. */
const TIMED = ALGORITHMS.filter((algorithm) => algorithm !== 'concurrency')

const SPECS = [
  aLimit({ id: 1, capacity: 5, windowMs: 100 }),
  aLimit({ id: 2, capacity: 5, windowMs: 100, algorithm: 'fixed_window' }),
]

beforeEach(async () => {
  await redis.flushall()
  await daemon.open()
  await daemon.begin({ incarnation: 1, levels: 'full', recovering: false })
  version = await daemon.writePolicies({
    revision: 1,
    members: ['here'],
    plane: [],
    region: SPECS.map(policyOf),
    recovering: false,
  })
  const { policies } = await createPolicyReader({ redis }).readAll()
  limits = policies.flatMap((policy) => policy.limits)
  await daemon.serve()
})

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url')

function target(value: string, cost = 1, id = 1): GroupCheck {
  const entries = [{ key: 'tenant', value }]
  const group = slotGroup({ domain: 'api', entries })
  const limit = limits.find((one) => one.id === id)
  if (limit === undefined) throw new Error(`no limit ${id}`)
  const name = counterName(entries, sha256)
  return {
    group,
    cost,
    targets: [{ limit, counter: counterId({ group, limitId: id, usageEpoch: 0, name }) }],
  }
}

async function check(value: string, cost = 1, id = 1): Promise<boolean> {
  const { decisions } = await checks.check(target(value, cost, id), version)
  return decisions[0]?.allowed === true
}

/** Keys that are there whether or not anything is checked. */
const BASELINE = /^(m|l|u|h):\{|^qp:\{qp\}:/

describe('the keyspace', () => {
  it('B079: counts odd values apart, bounded in length', async () => {
    const values = [
      '',
      ' ',
      'x'.repeat(1_000_000),
      'a\u0000b',
      'a\nb',
      '\u{1f600}',
      '\u05d0\u05d1',
      '*?[',
      '{x}',
      '__proto__',
      'constructor',
      'toString',
    ]
    for (const value of values) {
      expect(await check(value, 5, 2), value.slice(0, 20)).toBe(true)
      expect(await check(value, 0, 1), value.slice(0, 20)).toBe(true)
    }
    const keys = await redis.keys('c:*')
    expect(keys.length).toBeLessThanOrEqual(values.length)
    expect(Math.max(...keys.map((key) => key.length))).toBeLessThan(200)
  })

  it('B008: names nothing and stores nothing with an exponent', async () => {
    for (let call = 0; call < 10; call++) await check('acme', 1, 1 + (call % 2))
    const keys = await redis.keys('*')
    const fields = (
      await Promise.all(keys.filter((key) => key.startsWith('u:')).map((key) => redis.hkeys(key)))
    ).flat()
    expect(fields.length).toBeGreaterThan(0)
    expect([...keys, ...fields].filter((name) => /e\+/.test(name))).toEqual([])
    const value = await redis.getBuffer(`c:${target('acme').targets[0]?.counter}`)
    const [seconds, micros] = await redis.time()
    // The bucket's instant, exact to the microsecond, lies within the last seconds.
    const lastUs = value?.readDoubleLE(25) ?? 0
    expect(Number.isInteger(lastUs)).toBe(true)
    expect(Number(seconds) * 1e6 + Number(micros) - lastUs).toBeLessThan(10_000_000)
  })

  it('B080: has no counter without an expiry, except pinned ones', async () => {
    await Promise.all(
      Array.from({ length: 500 }, (_, index) =>
        check(`t${index % 50}`, 1 + (index % 3), 1 + (index % 2)),
      ),
    )
    const pinned = target('loan').targets[0]?.counter ?? ''
    const write = { home: POOL_UNITS, borrowed: 0, expiresAtMs: null, shrinks: false }
    const tracked = target('t1').targets[0]?.counter ?? ''
    await daemon.writeShares([
      { id: pinned, ...write, pinned: true, row: emptyRow(pinned) },
      { id: tracked, ...write, pinned: false, row: emptyRow(tracked) },
    ])
    await check('loan')
    await check('t1')
    const without: string[] = []
    for (const key of await redis.keys('*')) {
      if ((await redis.pttl(key)) === -1 && !BASELINE.test(key)) without.push(key)
    }
    expect(without).toEqual([`c:${pinned}`])
    const side = (await redis.keys('*')).filter((key) => /^[uh]:/.test(key))
    for (const key of side) expect(await redis.pttl(key), key).toBeGreaterThan(0)
  })

  it('B082, B152: returns to what it was once windows have passed, whatever never had a share', {
    timeout: 20_000,
  }, async () => {
    const before = (await redis.keys('*')).filter((key) => !/^[uh]:/.test(key)).sort()
    await Promise.all(
      Array.from({ length: 2_000 }, (_, index) => check(`tenant-${index}`, 1, 1 + (index % 2))),
    )
    expect(await redis.keys('c:*')).toHaveLength(2_000)
    await vi.waitFor(
      async () => {
        const left = (await redis.keys('*')).filter((key) => !/^[uh]:/.test(key)).sort()
        expect(left).toEqual(before)
      },
      { timeout: 15_000, interval: 200 },
    )
  })

  it('notes a counter that runs low once, and forgets those that the daemon took', async () => {
    await check('acme', 3)
    expect((await daemon.collect()).noticed).toEqual([])
    await check('acme', 1, 2)
    await check('acme', 4, 1)
    await check('acme', 4, 2)
    const { noticed } = await daemon.collect()
    const expected = [target('acme', 1, 1), target('acme', 1, 2)].map(
      ({ targets }) => targets[0]?.counter,
    )
    expect([...noticed].sort()).toEqual(expected.sort())
    expect((await daemon.collect()).noticed).toEqual([])
  })

  it.each(TIMED)('holds an idle key of a %s in at most 200 bytes', async (algorithm) => {
    const count = 10_000
    const used = async (): Promise<number> =>
      Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
    await daemon.writePolicies({
      revision: 2,
      members: ['here'],
      plane: [],
      region: [policyOf(aLimit({ id: 3, algorithm, capacity: 100, windowMs: 600_000 }))],
      recovering: false,
    })
    const { policies, version: newest } = await createPolicyReader({ redis }).readAll()
    limits = policies.flatMap((policy) => policy.limits)
    const before = await used()
    for (let from = 0; from < count; from += 1_000) {
      await Promise.all(
        Array.from({ length: 1_000 }, (_, index) =>
          checks.check(target(`tenant-${from + index}`, 1, 3), newest),
        ),
      )
    }
    // The second check is the one that stores in place.
    await Promise.all(
      Array.from({ length: 1_000 }, (_, index) =>
        checks.check(target(`tenant-${index}`, 1, 3), newest),
      ),
    )
    const bytes = ((await used()) - before) / count
    expect(bytes).toBeLessThanOrEqual(200)
    expect(bytes).toBeGreaterThan(50)
  })
})
