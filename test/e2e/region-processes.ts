import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, vi } from 'vitest'
import type { CheckRecord } from '../../services/cli/demo/check-record.ts'
import type { Policy } from '../../shared/core/policy.ts'
import { GROUP_KEYS } from '../../shared/redis/keys.ts'
import { unpackDoubles } from '../../shared/redis/layout.ts'
import { onNodeOf, openRegionRedis, type RegionRedis } from '../../shared/redis/region-redis.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { TestAdmin } from '../integration/sync/region.ts'
import { MemoryPlane } from '../support/memory-plane.ts'
import { type NatsServer, startNats } from '../support/nats-server.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'

export const REGION = 'us-east-1'

/** Of the totals in Redis, those over all time: no window ends in them. */
const ALL_TIME = /^\d+\.\d+$/

/** Checks of one load that wait for their answers at most. */
const IN_FLIGHT_MAX = 100

const LOAD_EVERY_MS = 10

export interface Answer {
  readonly allowed: boolean
  readonly degraded: boolean
  readonly decisions: readonly { readonly remaining: number | null; readonly limit: number }[]
}

type Entry = readonly [key: string, value: string]

/** What a load was answered. */
export interface Load {
  readonly checks: readonly (CheckRecord & { readonly degraded: boolean })[]
  stop(): Promise<void>
}

/** The processes of one region over a Redis of any kind, as they are deployed: daemon and enforcer; admin in memory. */
export class RegionProcesses {
  readonly daemon: ServerProcess
  readonly #enforcer: ServerProcess
  readonly #nats: NatsServer
  readonly #admin: TestAdmin
  readonly #redis: RegionRedis
  readonly #agent = new Agent({ connections: 8 })
  readonly #loads: Load[] = []

  private constructor(
    processes: { readonly daemon: ServerProcess; readonly enforcer: ServerProcess },
    rest: { readonly nats: NatsServer; readonly admin: TestAdmin; readonly redisUrl: string },
  ) {
    this.daemon = processes.daemon
    this.#enforcer = processes.enforcer
    this.#nats = rest.nats
    this.#admin = rest.admin
    const access = { url: rest.redisUrl, name: 'test', onError: () => {}, onReady: () => {} }
    this.#redis = openRegionRedis(access)
  }

  /** Resolves once the region decides under `policies`. */
  static async start(redisUrl: string, policies: readonly Policy[]): Promise<RegionProcesses> {
    const nats = await startNats()
    const plane = new MemoryPlane([REGION])
    for (const policy of policies) plane.put(policy)
    const admin = new TestAdmin(nats.url, plane)
    const own = { PATH: process.env['PATH'], REGION, REDIS_URL: redisUrl }
    const [daemon, enforcer] = await Promise.all([
      startService('sync', { ...own, NATS_URL: nats.url, SYNC_HOST: '127.0.0.1', SYNC_PORT: '0' }),
      startService('enforcer', {
        ...own,
        REDIS_DEADLINE_MS: '2000',
        ENFORCER_PORT: '0',
        ENFORCER_GRPC_PORT: '0',
      }),
    ])
    const region = new RegionProcesses({ daemon, enforcer }, { nats, admin, redisUrl })
    await region.#untilReady().catch(async (err: unknown) => {
      await region.stop()
      throw err
    })
    return region
  }

  #untilReady(): Promise<void> {
    return vi.waitFor(
      async () => {
        expect(await this.isServing()).toBe(true)
        expect(await this.isReady()).toBe(true)
      },
      { timeout: 30_000, interval: 50 },
    )
  }

  /** Whether the daemon leads the region and has served it. */
  async isServing(): Promise<boolean> {
    return (await fetch(`${urlOf(this.daemon)}/readyz`)).status === 200
  }

  async isReady(): Promise<boolean> {
    return (await fetch(`${urlOf(this.#enforcer)}/readyz`)).status === 200
  }

  /** The daemon's sessions so far, by what it knew of its past. */
  async sessions(): Promise<Readonly<Record<string, number>>> {
    const metrics = await (await fetch(`${urlOf(this.daemon)}/metrics`)).text()
    const found = metrics.matchAll(/^quotaplane_sessions_total\{.*continuity="(\w+)".*\} (\d+)$/gm)
    return Object.fromEntries(
      [...found].map(([, continuity, count]) => [continuity, Number(count)]),
    )
  }

  async check(...entries: readonly Entry[]): Promise<Answer> {
    return await this.ask(entries, 1)
  }

  async ask(entries: readonly Entry[], cost: number): Promise<Answer> {
    const descriptors = entries.map(([key, value]) => ({ entries: [{ key, value }] }))
    const reply = await request(`${urlOf(this.#enforcer)}/v1/check`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'api', descriptors, cost }),
      dispatcher: this.#agent,
    })
    return (await reply.body.json()) as Answer
  }

  /** Offers about `perSecond` checks of one entry until it or the region is stopped; none waits for an earlier one. */
  offer(entry: Entry, perSecond: number): Load {
    const checks: (CheckRecord & { readonly degraded: boolean })[] = []
    const waiting = new Set<Promise<void>>()
    const send = async (): Promise<void> => {
      const sentMs = performance.now()
      const { allowed, degraded } = await this.check(entry)
      const receivedMs = performance.now()
      const outcome = allowed ? 'admitted' : 'denied'
      checks.push({ region: 0, client: entry[1], sentMs, receivedMs, outcome, degraded })
    }
    const sendSome = (): void => {
      for (let due = (perSecond * LOAD_EVERY_MS) / 1_000; due > 0; due--) {
        if (waiting.size >= IN_FLIGHT_MAX) return
        const sent = send().finally(() => waiting.delete(sent))
        waiting.add(sent)
      }
    }
    const timer = setInterval(sendSome, LOAD_EVERY_MS)
    const load = {
      checks,
      async stop() {
        clearInterval(timer)
        await Promise.all(waiting)
      },
    }
    this.#loads.push(load)
    return load
  }

  /** Tokens that Redis has counted as admitted ever, all limits and slot groups together, less those that came back. */
  async counted(): Promise<number> {
    const groups = await Promise.all(
      GROUP_KEYS.map(({ usage }) =>
        onNodeOf(this.#redis, usage, (node) => node.hgetallBuffer(usage)),
      ),
    )
    let sum = 0
    for (const group of groups) {
      for (const [field, text] of Object.entries(group)) {
        if (!ALL_TIME.test(field)) continue
        const [, admitted = 0, , returned = 0] = unpackDoubles(text)
        sum += admitted - returned
      }
    }
    return sum
  }

  async stop(): Promise<void> {
    // A test that failed has left them.
    await Promise.all(this.#loads.map((load) => load.stop()))
    await this.#agent.close()
    this.#redis.disconnect()
    await Promise.all([this.#enforcer.stop(), this.daemon.stop()])
    await this.#admin.close()
    await this.#nats.stop()
  }
}

function startService(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<ServerProcess> {
  const main = join(PACKAGE_ROOT, 'dist/services', name, 'main.js')
  return startServer(process.execPath, [main], '"msg":"listening"', { env })
}

function urlOf(service: ServerProcess): string {
  return /"url":"([^"]+)"/.exec(service.log())?.[1] ?? ''
}
