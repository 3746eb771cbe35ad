import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { bucketExcess } from '../../services/cli/demo/reference-bucket.ts'
import {
  counterName,
  SLOT_GROUP_TAGS,
  SLOT_GROUPS,
  slotGroup,
} from '../../shared/core/counter-id.ts'
import type { Policy } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { keySlot } from '../../shared/redis/key-slot.ts'
import { GROUP_KEYS, REGION_KEYS } from '../../shared/redis/keys.ts'
import { aPolicy } from '../support/memory-plane.ts'
import {
  type ClusterMember,
  type RedisClusterServers,
  startRedisCluster,
} from '../support/redis-cluster-servers.ts'
import { type SentinelServers, startSentinel } from '../support/sentinel-servers.ts'
import { type Answer, type Load, REGION, RegionProcesses } from './region-processes.ts'

/** A region's daemon and enforcer as they are started, on a Redis of several processes. */

const SHARDS = 4
const SLOTS = 16_384
const REGION_SLOT = keySlot(REGION_KEYS.region)

/** Ends at midnight and at noon. */
const wide = { algorithm: 'fixed_window', windowMs: 12 * 3_600_000 } as const
const flow = { algorithm: 'token_bucket', capacity: 100, windowMs: 1_000, burst: 20 } as const

/** Checks a second of one tenant: more than its limit, and less than would be leased. */
const OFFERED = 200

let ids = 0
const policy = (change: Parameters<typeof aPolicy>[0]): Policy =>
  aPolicy({ id: ++ids, base: { [REGION]: POOL_UNITS }, ...change })

const policies: readonly Policy[] = [
  policy({ ...wide, name: 'tenants', capacity: 1_000_000 }),
  policy({ ...wide, name: 'a', match: [{ key: 'a' }], capacity: 100 }),
  policy({ ...wide, name: 'b', match: [{ key: 'b' }], capacity: 5 }),
  policy({ ...wide, name: 'hot', match: [{ key: 'hot' }], capacity: 100, shards: SHARDS }),
  policy({ ...flow, name: 'flow', match: [{ key: 'flow' }] }),
  policy({ ...flow, name: 'open', match: [{ key: 'open' }], onStoreFailure: 'allow' }),
]

const times = <T>(count: number, what: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => what(index)))

const admittedOf = (answers: readonly Answer[]): number =>
  answers.filter(({ allowed }) => allowed).length

const groupOf = (key: string, value: string): number =>
  slotGroup({ domain: 'api', entries: [{ key, value }] })

const slotOf = (group: number): number => keySlot(GROUP_KEYS[group]?.meta ?? '')

/** A tenant of each slot group. */
const tenants: readonly string[] = Array.from({ length: SLOT_GROUPS }, (_, group) => {
  for (let id = 0; ; id++) if (groupOf('tenant', `t${id}`) === group) return `t${id}`
})

describe('a region whose Redis is a cluster', () => {
  let servers: RedisClusterServers
  let running: RegionProcesses

  beforeAll(async () => {
    servers = await startRedisCluster(3)
    // The node that is to fail is the first that everybody asks for the way.
    const ports = servers.masters.map(({ port }) => port).toReversed()
    const seeds = ports.map((port) => `127.0.0.1:${port}`).join(',')
    running = await RegionProcesses.start(`redis+cluster://${seeds}`, policies)
  })
  afterAll(async () => {
    await running?.stop()
    await servers?.stop()
  })

  it('counts each check once, whichever node has its slot', async () => {
    const before = await running.counted()
    const answers = await times(4 * SLOT_GROUPS, (index) =>
      running.check(['tenant', tenants[index % SLOT_GROUPS] ?? '']),
    )
    expect(admittedOf(answers)).toBe(4 * SLOT_GROUPS)
    expect(answers.some(({ degraded }) => degraded)).toBe(false)
    expect((await running.counted()) - before).toBe(4 * SLOT_GROUPS)
  })

  it('takes nothing of one limit where another on another node denies (B041)', async () => {
    const isApart = (value: string): boolean => {
      const [one, other] = [slotOf(groupOf('a', value)), slotOf(groupOf('b', value))]
      return Math.floor((3 * one) / SLOTS) !== Math.floor((3 * other) / SLOTS)
    }
    const value = Array.from({ length: 100 }, (_, id) => `v${id}`).find(isApart) ?? ''
    expect(value).not.toBe('')
    const both = [
      ['a', value],
      ['b', value],
    ] as const
    for (const asked of [both, both.toReversed()]) {
      const answers = await times(20, () => running.check(...asked))
      expect(admittedOf(answers)).toBe(asked === both ? 5 : 0)
    }
    const { decisions } = await running.ask(both, 0)
    expect(decisions.map(({ remaining }) => remaining)).toEqual([95, 0])
  })

  it('spreads a key with shards over every node, and admits its share to the token', async () => {
    const name = counterName([{ key: 'hot', value: 'one' }], String)
    const answers = await times(1_000, () => running.check(['hot', 'one']))
    expect(admittedOf(answers)).toBe(25 * SHARDS)
    for (const { decisions } of answers) expect(decisions[0]?.limit).toBe(25 * SHARDS)
    const holders = await Promise.all(
      servers.masters.map(async ({ redis }) => (await redis.keys(`c:*${name}*`)).length),
    )
    expect(holders.every((held) => held > 0)).toBe(true)
    expect(holders.reduce((sum, held) => sum + held, 0)).toBe(SHARDS)
  })

  it('counts each check exactly once while the slots of what is checked, and of what its daemon writes, move (B091)', async () => {
    const [from, to, failing] = servers.masters
    if (from === undefined || to === undefined || failing === undefined) throw new Error('masters')
    const moving = Array.from({ length: SLOT_GROUPS }, (_, group) => group).filter(
      (group) => slotOf(group) < SLOTS / 3,
    )
    // Enough keys that a slot is on its way for a while, and a batch finds some here and some there.
    for (const group of moving) {
      const tag = SLOT_GROUP_TAGS[group]
      const crowd = from.redis.pipeline()
      for (let key = 0; key < 1_000; key++) crowd.set(`crowd:{${tag}}${key}`, '')
      await crowd.exec()
    }
    const before = await running.counted()
    let isMoving = true
    const answers: Answer[] = []
    const load = async (): Promise<void> => {
      while (isMoving) {
        const round = await times(40, (index) =>
          running.check(['tenant', tenants[moving[index % moving.length] ?? 0] ?? '']),
        )
        answers.push(...round)
      }
    }
    const loads = [load(), load()]
    for (const group of moving) await servers.moveSlot(slotOf(group), from, to)
    // The node that is to fail has the region's own keys from now on.
    await servers.moveSlot(REGION_SLOT, ownerOf(servers, REGION_SLOT), failing)
    isMoving = false
    await Promise.all(loads)
    expect(answers.filter(({ degraded }) => degraded)).toEqual([])
    expect(admittedOf(answers)).toBe(answers.length)
    // A tenant that was asked for often was leased; what is left of a lease comes back once it is idle.
    await vi.waitFor(async () => {
      expect((await running.counted()) - before).toBe(answers.length)
    }, 5_000)
    expect(answers.length).toBeGreaterThan(100)
    // The daemon has led all the while: nothing of what it wrote was lost or refused on the way.
    expect(await running.sessions()).toEqual({ first: 1 })
    expect(await running.isServing()).toBe(true)
  })

  it('is decided by policies while a node is away, also where a replica has its slots, and by Redis once the daemon has served that, never beyond a limit (B089, B094, B100)', async () => {
    const [, , failing] = servers.masters
    const [, , replica] = servers.replicas
    if (failing === undefined || replica === undefined) throw new Error('a master and its replica')
    const away = valueIn('flow', (slot) => slot >= (2 * SLOTS) / 3)
    const open = valueIn('open', (slot) => slot >= (2 * SLOTS) / 3)
    const there = valueIn('flow', (slot) => slot < (2 * SLOTS) / 3)
    const loads = [away, there].map((value) => running.offer(['flow', value], OFFERED))
    await Promise.all(loads.map((load) => untilAdmitted(load, 30)))

    // Without it nobody serves the replica, however soon that takes over.
    running.daemon.pause()
    await failing.server.stop('SIGKILL')
    await untilDegraded(running, away, open)
    await vi.waitFor(
      async () => {
        expect(await replica.redis.info('replication')).toContain('role:master')
        expect(await running.check(['flow', away])).toMatchObject({ degraded: true })
        // The enforcer has asked it, and found nothing there to decide by.
        expect(await replica.redis.info('errorstats')).toContain('errorstat_NOSCRIPT')
      },
      { timeout: 20_000, interval: 50 },
    )
    await untilDegraded(running, away, open)

    running.daemon.resume()
    await Promise.all(loads.map((load) => untilAdmitted(load, 60)))
    await vi.waitFor(
      async () => {
        const answer = await running.check(['open', open])
        expect(answer).toMatchObject({ allowed: true, degraded: false })
      },
      { timeout: 20_000, interval: 50 },
    )
    expect(await running.isReady()).toBe(true)
    await Promise.all(loads.map((load) => load.stop()))
    for (const load of loads) expectNothingBeyond(load)
  })
})

describe('a region behind sentinels', () => {
  let servers: SentinelServers
  let running: RegionProcesses

  beforeAll(async () => {
    servers = await startSentinel()
    running = await RegionProcesses.start(servers.url, policies)
  })
  afterAll(async () => {
    await running?.stop()
    await servers?.stop()
  })

  it('follows them to another master, which decides once its daemon has served it, never beyond a limit and each check counted once (B089, B100)', async () => {
    const before = await running.counted()
    // Each another tenant: one that is asked for often would be leased, and its whole block counted.
    const answers = await times(50, (index) => running.check(['tenant', `before-${index}`]))
    expect(admittedOf(answers)).toBe(50)
    expect((await running.counted()) - before).toBe(50)

    const load = running.offer(['flow', 'acme'], OFFERED)
    await untilAdmitted(load, 30)
    await servers.failOver()
    await vi.waitFor(() => expect(servers.second.log()).toContain('MASTER MODE enabled'), 20_000)
    // The old master is cut off, or a replica by now, and the new one is not served: neither may decide.
    await vi.waitFor(() => expect(load.checks.at(-1)).toMatchObject({ degraded: true }), 20_000)
    await untilAdmitted(load, 60)
    await load.stop()
    expectNothingBeyond(load)
    const { first, ...later } = await running.sessions()
    expect(first).toBe(1)
    expect(Object.keys(later)).not.toEqual([])

    const counted = await running.counted()
    const more = await times(50, (index) => running.check(['flow', `after-${index}`]))
    expect(admittedOf(more)).toBe(50)
    expect((await running.counted()) - counted).toBe(50)
  })
})

/** The master that has had `slot` since the cluster was made. */
function ownerOf({ masters }: RedisClusterServers, slot: number): ClusterMember {
  const owner = masters[Math.floor((masters.length * slot) / SLOTS)]
  if (owner === undefined) throw new Error('every slot has a master')
  return owner
}

/** A value of `key` whose slot is one that `isWanted`. */
function valueIn(key: string, isWanted: (slot: number) => boolean): string {
  const values = Array.from({ length: 100 }, (_, id) => `v${id}`)
  const value = values.find((one) => isWanted(slotOf(groupOf(key, one))))
  if (value === undefined) throw new Error('some value is in each part of the slots')
  return value
}

/** Waits until `load` has been admitted so many more checks by Redis. */
async function untilAdmitted(load: Load, more: number): Promise<void> {
  const count = () => admittedByRedis(load).length
  const before = count()
  await vi.waitFor(() => expect(count() - before).toBeGreaterThanOrEqual(more), {
    timeout: 40_000,
    interval: 20,
  })
}

/** Waits until policies decide: one denies and the other allows, and both say that Redis did not. */
async function untilDegraded(running: RegionProcesses, away: string, open: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const answers = [running.check(['flow', away]), running.check(['open', open])]
      expect(await Promise.all(answers)).toMatchObject([
        { allowed: false, degraded: true },
        { allowed: true, degraded: true },
      ])
    },
    { timeout: 10_000, interval: 20 },
  )
}

const admittedByRedis = ({ checks }: Load): Load['checks'] =>
  checks.filter(({ outcome, degraded }) => outcome === 'admitted' && !degraded)

/** Redis admitted no more than the limit over any time; the policy, which denies, admitted nothing in its place. */
function expectNothingBeyond(load: Load): void {
  expect(bucketExcess(admittedByRedis(load), flow)).toBe(0)
  const degraded = load.checks.filter((one) => one.degraded)
  expect(degraded.filter(({ outcome }) => outcome === 'admitted')).toEqual([])
}
