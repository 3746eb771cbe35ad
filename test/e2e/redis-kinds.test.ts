import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  counterName,
  SLOT_GROUP_TAGS,
  SLOT_GROUPS,
  slotGroup,
} from '../../shared/core/counter-id.ts'
import { partGroup } from '../../shared/core/counter-parts.ts'
import type { RegionPolicySpec } from '../../shared/core/policy.ts'
import type { RegionStore } from '../../shared/core/ports.ts'
import { keySlot } from '../../shared/redis/key-slot.ts'
import { GROUP_KEYS } from '../../shared/redis/keys.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { aLimit, aPolicy } from '../integration/enforcer/region.ts'
import { type RedisClusterServers, startRedisCluster } from '../support/redis-cluster-servers.ts'
import { type SentinelServers, startSentinel } from '../support/sentinel-servers.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'

/** The enforcer as it is started, on a Redis of several processes; its daemon's part is played by the daemon's store. */

const MAIN = join(PACKAGE_ROOT, 'dist/services/enforcer/main.js')
const SHARDS = 4

const wide = { algorithm: 'fixed_window', windowMs: 3_600_000 } as const
const limit = aLimit({ ...wide, capacity: 1_000_000 })
const hot = aLimit({ ...wide, capacity: 25, burst: 25, nominal: 25 * SHARDS, shards: SHARDS })
const policies: readonly RegionPolicySpec[] = [
  { ...aPolicy({ name: 'tenants', onStoreFailure: 'deny' }), limits: [limit] },
  aPolicy({ name: 'a', match: [{ key: 'a' }], limits: [{ ...wide, capacity: 100 }] }),
  aPolicy({ name: 'b', match: [{ key: 'b' }], limits: [{ ...wide, capacity: 5 }] }),
  { ...aPolicy({ name: 'hot', match: [{ key: 'hot' }] }), limits: [hot] },
]

interface Answer {
  readonly allowed: boolean
  readonly degraded: boolean
  readonly decisions: readonly { readonly remaining: number | null; readonly limit: number }[]
}

/** An enforcer's process, and the store of its region's daemon. */
class Running {
  readonly #redisUrl: string
  #daemon: RegionStore | undefined
  #process: ServerProcess | undefined
  #url = ''
  readonly #agent = new Agent({ connections: 8 })
  /** By limit and window: a reading tells of those that changed. */
  readonly #kept = new Map<string, number>()

  constructor(redisUrl: string) {
    this.#redisUrl = redisUrl
  }

  get daemon(): RegionStore {
    if (this.#daemon === undefined) throw new Error('the daemon has not started')
    return this.#daemon
  }

  /** What a daemon does that finds nothing: a new incarnation. */
  async boot(incarnation: number): Promise<void> {
    await this.#daemon?.close().catch(() => {})
    const at = { url: this.#redisUrl, region: 'us-east-1', clock: systemClock }
    this.#daemon = await connectRegionStore(at)
    const opened = await this.#daemon.open()
    if (opened.scriptsLoaded) throw new Error('an earlier daemon still serves')
    await this.#daemon.begin({ incarnation, levels: 'full', recovering: false })
    const plane = { revision: incarnation, members: ['us-east-1'], plane: [] }
    await this.#daemon.writePolicies({ ...plane, region: policies, recovering: false })
    await this.#daemon.serve()
  }

  async start(): Promise<void> {
    const env = {
      PATH: process.env['PATH'],
      REGION: 'us-east-1',
      REDIS_URL: this.#redisUrl,
      REDIS_DEADLINE_MS: '2000',
      ENFORCER_PORT: '0',
      ENFORCER_GRPC_PORT: '0',
    }
    this.#process = await startServer(process.execPath, [MAIN], '"msg":"listening"', { env })
    this.#url = /"url":"([^"]+)"/.exec(this.#process.log())?.[1] ?? ''
    await vi.waitFor(async () => expect(await this.isReady()).toBe(true), 20_000)
  }

  async isReady(): Promise<boolean> {
    return (await fetch(`${this.#url}/readyz`)).status === 200
  }

  async check(...entries: readonly (readonly [string, string])[]): Promise<Answer> {
    return await this.ask(entries, 1)
  }

  async ask(entries: readonly (readonly [string, string])[], cost: number): Promise<Answer> {
    const descriptors = entries.map(([key, value]) => ({ entries: [{ key, value }] }))
    const reply = await request(`${this.#url}/v1/check`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'api', descriptors, cost }),
      dispatcher: this.#agent,
    })
    return (await reply.body.json()) as Answer
  }

  /** Tokens that Redis counted as admitted, all limits and slot groups together, less those that came back. */
  async counted(): Promise<number> {
    const { usage } = await this.daemon.collect()
    for (const { limitId, window, admitted, returned } of usage) {
      this.#kept.set(`${limitId}.${window}`, admitted - returned)
    }
    return [...this.#kept.values()].reduce((sum, kept) => sum + kept, 0)
  }

  async stop(): Promise<void> {
    await this.#agent.close()
    await this.#process?.stop()
    await this.#daemon?.close().catch(() => {})
  }
}

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

describe('an enforcer whose Redis is a cluster', () => {
  let servers: RedisClusterServers
  let running: Running

  beforeAll(async () => {
    servers = await startRedisCluster(3)
    running = new Running(servers.url)
    await running.boot(1)
    await running.start()
  })
  afterAll(async () => {
    await running.stop()
    await servers.stop()
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
      return Math.floor((3 * one) / 16_384) !== Math.floor((3 * other) / 16_384)
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

  it('counts each check exactly once while the slots of what is checked move (B091)', async () => {
    const [from, to] = servers.masters
    if (from === undefined || to === undefined) throw new Error('masters')
    const moving = Array.from({ length: SLOT_GROUPS }, (_, group) => group).filter(
      (group) => slotOf(group) < 16_384 / 3,
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
    isMoving = false
    await Promise.all(loads)
    expect(answers.filter(({ degraded }) => degraded)).toEqual([])
    expect(admittedOf(answers)).toBe(answers.length)
    expect((await running.counted()) - before).toBe(answers.length)
    expect(answers.length).toBeGreaterThan(100)
  })

  it('answers as policies say while a node is away, and decides by itself again once its replica is served (B089, B094, B100)', async () => {
    const [, , failing] = servers.masters
    const group = partGroup(0, 0)
    const away = tenants.filter((tenant) => slotOf(groupOf('tenant', tenant)) > 11_000)[0] ?? ''
    const there = tenants[group] ?? ''
    await failing?.server.stop('SIGKILL')
    const began = performance.now()
    const lost = await running.check(['tenant', away])
    // Denied by the policy, for want of Redis and not of tokens; nobody waits for a connection that is gone.
    expect(lost).toMatchObject({ allowed: false, degraded: true })
    expect(performance.now() - began).toBeLessThan(3_000)
    await vi.waitFor(() => running.boot(2), { timeout: 30_000, interval: 200 })
    await vi.waitFor(
      async () => {
        for (const tenant of [away, there]) {
          expect(await running.check(['tenant', tenant])).toMatchObject({
            allowed: true,
            degraded: false,
          })
        }
      },
      { timeout: 20_000, interval: 50 },
    )
    expect(await running.isReady()).toBe(true)
  })
})

describe('an enforcer behind sentinels', () => {
  let servers: SentinelServers
  let running: Running

  beforeAll(async () => {
    servers = await startSentinel()
    running = new Running(servers.url)
    await running.boot(1)
    await running.start()
  })
  afterAll(async () => {
    await running.stop()
    await servers.stop()
  })

  it('follows them to another master, which decides once it is served, each check counted once (B089, B100)', async () => {
    const before = await running.counted()
    // Each another tenant: one that is asked for often would be leased, and its whole block counted.
    const answers = await times(50, (index) => running.check(['tenant', `before-${index}`]))
    expect(admittedOf(answers)).toBe(50)
    expect((await running.counted()) - before).toBe(50)

    await servers.failOver()
    await vi.waitFor(() => expect(servers.second.log()).toContain('MASTER MODE enabled'), 20_000)
    // The old master is cut off, or a replica by now, and the new one is not served: neither may decide.
    await vi.waitFor(
      async () => {
        const answer = await running.check(['tenant', 'acme'])
        expect(answer).toMatchObject({ allowed: false, degraded: true })
      },
      { timeout: 20_000, interval: 20 },
    )
    await vi.waitFor(() => running.boot(2), { timeout: 30_000, interval: 200 })
    await vi.waitFor(
      async () => {
        const answer = await running.check(['tenant', 'acme'])
        expect(answer).toMatchObject({ allowed: true, degraded: false })
      },
      { timeout: 20_000, interval: 50 },
    )
    const counted = await running.counted()
    const more = await times(50, (index) => running.check(['tenant', `after-${index}`]))
    expect(admittedOf(more)).toBe(50)
    expect((await running.counted()) - counted).toBe(50)
  })
})
