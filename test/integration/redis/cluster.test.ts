import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { counterId, counterName, SLOT_GROUPS, slotGroup } from '../../../shared/core/counter-id.ts'
import type { RegionLimit } from '../../../shared/core/policy.ts'
import type { CheckStore, PolicyReader, RegionStore } from '../../../shared/core/ports.ts'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { createEnforcerRoll } from '../../../shared/redis/enforcer-roll.ts'
import { keySlot } from '../../../shared/redis/key-slot.ts'
import { GROUP_KEYS } from '../../../shared/redis/keys.ts'
import { createPolicyReader } from '../../../shared/redis/policy-reader.ts'
import { openRegionRedis, type RegionRedis } from '../../../shared/redis/region-redis.ts'
import { connectRegionStore } from '../../../shared/redis/region-store.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { freePorts } from '../../support/free-ports.ts'
import { type RedisClusterServers, startRedisCluster } from '../../support/redis-cluster-servers.ts'
import { aLimit, policyOf, shareOf } from '../../support/redis-region.ts'
import { LOGINS } from '../../support/redis-users.ts'

/** A region whose Redis is a cluster of six processes. */

const CAPACITY = 100_000
const limit = aLimit({ algorithm: 'fixed_window', capacity: CAPACITY, windowMs: 3_600_000 })

let servers: RedisClusterServers
let daemon: RegionStore
let redis: RegionRedis
let checks: CheckStore
let reader: PolicyReader
let applied: RegionLimit
let version = 0

const connect = () =>
  connectRegionStore({ url: servers.url, login: LOGINS.sync, region: 'here', clock: systemClock })

async function boot(incarnation: number): Promise<void> {
  await daemon.begin({ incarnation, levels: 'full', recovering: false })
  version = await daemon.writePolicies({
    revision: incarnation,
    members: ['here'],
    plane: [],
    region: [policyOf(limit)],
    recovering: false,
  })
  await daemon.serve()
  const [policy] = (await reader.readAll()).policies
  const [first] = policy?.limits ?? []
  if (first === undefined) throw new Error('a limit')
  applied = first
}

beforeAll(async () => {
  servers = await startRedisCluster(3)
  redis = openRegionRedis({
    url: servers.url,
    login: LOGINS.enforcer,
    name: 'enforcer',
    onError: () => {},
    onReady: () => {},
  })
  checks = createCheckStore({ redis, deadlineMs: 20_000 })
  reader = createPolicyReader({ redis })
  daemon = await connect()
  await daemon.open()
  await boot(1)
}, 120_000)
afterAll(async () => {
  await daemon.close()
  redis.disconnect()
  await servers.stop()
})

function target(key: string, cost = 1) {
  const entries = [{ key: 'tenant', value: key }]
  const group = slotGroup({ domain: 'api', entries })
  const name = counterName(entries, () => '')
  const counter = counterId({ group, limitId: 1, usageEpoch: 0, name })
  return { group, cost, targets: [{ limit: applied, counter }] }
}

const check = async (key: string, cost = 1) =>
  (await checks.check(target(key, cost), version)).decisions[0]

/** A key of each of some slot groups. */
function keysOf(groups: readonly number[]): readonly string[] {
  return groups.map((group) => {
    for (let id = 0; ; id++) if (target(`tenant ${id}`).group === group) return `tenant ${id}`
  })
}

const groupsOf = (first: number, last: number): number[] =>
  GROUP_KEYS.flatMap(({ meta }, group) =>
    keySlot(meta) >= first && keySlot(meta) <= last ? [group] : [],
  )

describe('a region on a Redis Cluster', () => {
  it('decides in every slot group, and the daemon reads and writes all of them', async () => {
    const keys = keysOf(Array.from({ length: SLOT_GROUPS }, (_, group) => group))
    const decisions = await Promise.all(keys.map((key) => check(key)))
    for (const one of decisions) expect(one).toMatchObject({ allowed: true, remaining: 99_999 })
    const { usage } = await daemon.collect()
    expect(usage.reduce((sum, row) => sum + row.admitted, 0)).toBe(SLOT_GROUPS)
    const [share] = await daemon.writeShares(
      keys.map((key) => shareOf(target(key).targets[0]?.counter ?? '')),
    )
    expect(share?.[1]).toBe('written')
    const roll = createEnforcerRoll({ redis })
    expect(await roll.beat({ id: 'one', name: 'one', version, revision: 1 } as never)).toBe(1)
  })

  it('is found by its daemon whichever node is named first, be that one away', async () => {
    const ports = servers.masters.map(({ port }) => port)
    const [nobody = 0] = await freePorts(1)
    const orders = [...ports.map((port) => [port, ...ports]), [nobody, ...ports]]
    for (const order of orders) {
      const url = `redis+cluster://${order.map((port) => `127.0.0.1:${port}`).join(',')}`
      const login = LOGINS.sync
      const store = await connectRegionStore({ url, login, region: 'here', clock: systemClock })
      expect(await store.claimLeadership(url, 1)).toBe(true)
      await store.releaseLeadership(url)
      await store.close()
    }
  })

  it('counts each check exactly once while slots move under load (B091)', async () => {
    const [from, to] = servers.masters
    if (from === undefined || to === undefined) throw new Error('masters')
    const moving = groupsOf(0, 5_000)
    const keys = keysOf(moving)
    // Enough keys that a slot is on its way for a while, and a batch finds some here and some there.
    const all = keys.flatMap((key) => Array.from({ length: 40 }, () => key))
    const others = moving.flatMap((group) =>
      Array.from({ length: 3_000 }, (_, id) => `crowd ${id}`).filter(
        (key) => target(key).group === group,
      ),
    )
    await Promise.all(others.map((key) => check(key)))
    const before = await Promise.all(keys.map(async (key) => (await check(key, 0))?.remaining ?? 0))
    let isMoving = true
    let admitted = 0
    const load = async (): Promise<void> => {
      while (isMoving) {
        const decisions = await Promise.all(all.map((key) => check(key)))
        admitted += decisions.filter((one) => one?.allowed).length
      }
    }
    const loads = [load(), load()]
    for (const group of moving)
      await servers.moveSlot(keySlot(GROUP_KEYS[group]?.meta ?? ''), from, to)
    isMoving = false
    await Promise.all(loads)
    const after = await Promise.all(keys.map(async (key) => (await check(key, 0))?.remaining ?? 0))
    const spent = before.reduce((sum, one, index) => sum + one - (after[index] ?? 0), 0)
    expect(spent).toBe(admitted)
    expect(admitted).toBeGreaterThan(all.length)
    await daemon.collect()
  }, 60_000)

  it('is served by a further master before slots move to it', async () => {
    const added = await servers.addMaster()
    const [, from] = servers.masters
    if (from === undefined) throw new Error('a master')
    const [group = 0] = groupsOf(0, 5_000)
    const [key = ''] = keysOf([group])
    const left = (await check(key, 0))?.remaining ?? 0
    await vi.waitFor(async () => {
      await daemon.collect()
      const scripts = String(await added.redis.info('memory'))
      expect(/number_of_cached_scripts:(\d+)/.exec(scripts)?.[1]).not.toBe('0')
    }, 15_000)
    await servers.moveSlot(keySlot(GROUP_KEYS[group]?.meta ?? ''), from, added)
    expect(await check(key)).toMatchObject({ allowed: true, remaining: left - 1 })
    await daemon.collect()
  }, 30_000)

  it('is not decided by a replica that took over until the daemon says so, and then is (B089)', async () => {
    const [, , failing] = servers.masters
    const [key = ''] = keysOf(groupsOf(11_000, 16_383))
    await check(key)
    await failing?.server.stop('SIGKILL')
    const short = createCheckStore({ redis, deadlineMs: 500 })
    const ask = async () => (await short.check(target(key), version)).decisions[0]
    await expect(ask()).rejects.toMatchObject({ code: 'QUOTA_STORE_UNAVAILABLE' })
    await expect(daemon.collect()).rejects.toMatchObject({ code: 'QUOTA_STORE_UNAVAILABLE' })
    await vi.waitFor(
      async () => {
        await daemon.close().catch(() => {})
        daemon = await connect()
        const opened = await daemon.open()
        expect(opened.scriptsLoaded).toBe(false)
      },
      { timeout: 20_000, interval: 200 },
    )
    // It has the slots, and must not decide: what it knows may be older than what was admitted.
    await expect(ask()).rejects.toMatchObject({ code: 'QUOTA_STORE_UNAVAILABLE' })
    await boot(2)
    await vi.waitFor(async () => expect(await ask()).toMatchObject({ allowed: true }), 10_000)
  }, 60_000)
})
