/**
 * Every process of a plane is restarted, one after the other, while checks go on: what an upgrade does that an operator
 * does by hand or Kubernetes does. Each service runs twice, as it is deployed.
 */
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { QuotaClient } from '../../client/mod.ts'
import { startPlane } from '../../services/cli/plane/plane.ts'
import type { Plane, RunningRegion } from '../../services/cli/plane/topology.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { freePorts } from '../support/free-ports.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'
import { REGIONS } from './support.ts'

/** Of one window that outlasts the test: what is admitted of it is never given back. */
const CAPACITY = 6_000

/** Callers of each region, and how long each waits between two checks while processes are restarted. */
const CALLERS = 4
const PACE_MS = 40

/** One process that can be restarted at its place. */
interface Part {
  readonly name: string
  readonly url: string
  /** Ends it as an upgrade does, and starts it again; rejects unless it ended well. */
  restart(): Promise<void>
}

let plane: Plane
const seconds: ServerProcess[] = []
const admins: Part[] = []
const enforcers = new Map<string, Part[]>()
const daemons = new Map<string, Part[]>()

beforeAll(async () => {
  plane = await startPlane({
    regions: REGIONS,
    linkDelayMs: 0,
    databaseUrl: null,
    ports: 'free',
    env: { ...process.env, DRAIN_DELAY_MS: '300' },
    say: () => {},
    signal: new AbortController().signal,
  })
  await Promise.all([startSecondAdmin(), ...plane.regions.map(startSeconds)])
})
afterAll(async () => {
  await Promise.all(seconds.map((one) => one.stop('SIGKILL')))
  await plane?.stop()
})

async function startSecondAdmin(): Promise<void> {
  const second = await startSecond('admin', {
    DATABASE_URL: plane.postgres.url,
    NATS_URL: plane.regions.map(({ nats }) => nats.url).join(','),
    QUOTAPLANE_ADMIN_TOKEN: plane.admin.token,
  })
  admins.push(firstOf('admin', plane.admin), second)
  await ready(second)
}

async function startSeconds(region: RunningRegion): Promise<void> {
  const env = { REGION: region.region, REDIS_URL: region.redis.url }
  const draining = { REDIS_DEADLINE_MS: '250', DRAIN_DELAY_MS: '300' }
  const [enforcer, daemon] = await Promise.all([
    startSecond('enforcer', { ...env, ...draining }),
    startSecond('sync', { ...env, NATS_URL: region.nats.url }),
  ])
  await ready(enforcer)
  const firsts = region.enforcers.map((one) => firstOf('enforcer', one))
  enforcers.set(region.region, [...firsts, enforcer])
  // The one that waits goes first: then it has the new version when it takes over.
  daemons.set(region.region, [daemon, firstOf('sync', region.sync)])
}

/** The plane's own process of a service. */
function firstOf(name: string, { url, child }: RunningRegion['sync']): Part {
  return { name: `${name} at ${url}`, url, restart: () => child.restart() }
}

/** Another process of the same service. */
async function startSecond(service: string, env: Record<string, string>): Promise<Part> {
  const [port, grpcPort] = await freePorts(2)
  const prefix = service.toUpperCase()
  const start = () =>
    startServer(
      process.execPath,
      [join(PACKAGE_ROOT, 'dist/services', service, 'main.js')],
      '"url":"http',
      {
        env: {
          PATH: process.env['PATH'],
          ...env,
          [`${prefix}_HOST`]: '127.0.0.1',
          [`${prefix}_PORT`]: String(port),
          ...(service === 'enforcer' && { ENFORCER_GRPC_PORT: String(grpcPort) }),
        },
      },
    )
  const index = seconds.push(await start()) - 1
  const url = `http://127.0.0.1:${port}`
  return {
    name: `second ${service} at ${url}`,
    url,
    async restart() {
      const child = seconds[index]?.child
      if (child === undefined) throw new Error('it was started')
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      expect((await exited)[0], service).toBe(0)
      seconds[index] = await start()
    },
  }
}

async function ready({ name, url }: Part): Promise<void> {
  const probe = async (): Promise<void> => {
    const { status } = await fetch(`${url}/readyz`)
    if (status !== 200) throw new Error(`${name} is not ready: ${status}`)
  }
  await vi.waitFor(probe, { timeout: 20_000, interval: 30 })
}

const callAdmin = (part: Part, path: string, init: RequestInit = {}) =>
  fetch(`${part.url}${path}`, {
    ...init,
    headers: {
      authorization: `Bearer ${plane.admin.token}`,
      'content-type': 'application/json',
      'if-none-match': '*',
    },
  })

async function createPolicy(part: Part, name: string, capacity: number): Promise<void> {
  const limit = { name: 'per-hour', algorithm: 'fixed_window', capacity, windowMs: 3_600_000 }
  const reply = await callAdmin(part, `/v1/domains/upgrade/policies/${name}`, {
    method: 'PUT',
    body: JSON.stringify({
      match: [{ key: name }],
      onStoreFailure: 'deny',
      limits: [{ ...limit, split: { [REGIONS[0]]: 60, [REGIONS[1]]: 40 } }],
    }),
  })
  expect(reply.status, await reply.text()).toBe(201)
}

/** Checks of all regions, and what became of them. */
class Callers {
  admitted = 0
  /** By region. */
  readonly denied = new Map(REGIONS.map((region) => [region as string, 0]))
  readonly failed: string[] = []
  readonly #clients = new Map<string, QuotaClient>()
  #paceMs = PACE_MS
  #isOver = false
  readonly #running: Promise<void>[] = []

  constructor() {
    for (const [region, parts] of enforcers) {
      const urls = parts.map(({ url }) => url)
      const options = { onUnavailable: 'throw', timeoutMs: 10_000 } as const
      this.#clients.set(region, new QuotaClient({ urls, ...options }))
    }
  }

  async check(region: string, name: string, cost: number): Promise<string> {
    const client = this.#clients.get(region)
    if (client === undefined) throw new Error(`no region ${region}`)
    const descriptors = [{ [name]: 'all' }]
    const answer = await client.check({ domain: 'upgrade', descriptors, cost })
    if (answer.degraded) return 'degraded'
    if (answer.unmatched === true) return 'unmatched'
    return answer.allowed ? 'admitted' : 'denied'
  }

  start(): void {
    for (const region of this.#clients.keys()) {
      for (let n = 0; n < CALLERS; n++) this.#running.push(this.#call(region))
    }
  }

  /** As fast as answers come. */
  hurry(): void {
    this.#paceMs = 0
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#running)
    await Promise.all([...this.#clients.values()].map((client) => client.close()))
  }

  async #call(region: string): Promise<void> {
    while (!this.#isOver) {
      const outcome = await this.check(region, 'load', 1).catch((err: unknown) => String(err))
      if (outcome === 'admitted') this.admitted++
      else if (outcome === 'denied') this.denied.set(region, (this.denied.get(region) ?? 0) + 1)
      else this.failed.push(`${region}: ${outcome}`)
      await new Promise((resolve) => setTimeout(resolve, this.#paceMs))
    }
  }
}

/** Asks one admin, or the other where that one does not answer, until `isOver`. */
async function readAdmin(isOver: () => boolean): Promise<{ read: number; failed: number }> {
  const count = { read: 0, failed: 0 }
  const ask = (part: Part) =>
    callAdmin(part, '/v1/policies').then(
      async (reply) => reply.status === 200 && (await reply.text()) !== '',
      () => false,
    )
  while (!isOver()) {
    let isRead = false
    for (const part of admins) isRead ||= await ask(part)
    count[isRead ? 'read' : 'failed']++
    await new Promise((resolve) => setTimeout(resolve, PACE_MS))
  }
  return count
}

/** In the order of docs/running.md. */
async function upgradeAll(): Promise<void> {
  for (const part of [...enforcers.values()].flat()) await upgrade(part)
  for (const parts of daemons.values()) {
    for (const part of parts) await part.restart()
    // One of them leads, and the other waits.
    await Promise.any(parts.map((part) => ready(part)))
  }
  for (const part of admins) await upgrade(part)
}

async function upgrade(part: Part): Promise<void> {
  await part.restart()
  await ready(part)
}

describe('an upgrade of every service under load', () => {
  it('fails no check, exceeds no limit and loses no count', async () => {
    const [first, second] = admins
    if (first === undefined || second === undefined) throw new Error('two admins')
    const callers = new Callers()
    const known = async (name: string): Promise<void> => {
      for (const region of REGIONS) {
        const check = () => callers.check(region, name, 0)
        await expect.poll(check, { timeout: 10_000 }).toBe('admitted')
      }
    }
    await createPolicy(first, 'load', CAPACITY)
    await known('load')
    callers.start()
    const upgrading = { isOver: false }
    const reading = readAdmin(() => upgrading.isOver)
    await upgradeAll()
    upgrading.isOver = true
    const read = await reading
    // A change by an upgraded admin reaches upgraded enforcers over upgraded daemons.
    await createPolicy(second, 'afterwards', 10)
    await known('afterwards')
    const whileUpgraded = callers.admitted
    callers.hurry()
    // Both regions deny once all of it is used; what one of them has left it lends to the other.
    const fewest = () => Math.min(...callers.denied.values())
    await expect.poll(fewest, { timeout: 60_000 }).toBeGreaterThan(200)
    await callers.stop()
    expect(callers.failed.slice(0, 5)).toEqual([])
    expect(read.failed).toBe(0)
    expect(read.read).toBeGreaterThan(20)
    expect(whileUpgraded).toBeGreaterThan(500)
    expect(callers.admitted).toBeLessThanOrEqual(CAPACITY)
    expect(callers.admitted).toBeGreaterThan(0.95 * CAPACITY)
    expect(await continuities()).toEqual(['kept'])
  })
})

/** How the daemons that lead found what their predecessors had left. */
async function continuities(): Promise<readonly string[]> {
  const found = new Set<string>()
  for (const { url } of [...daemons.values()].flat()) {
    const text = await (await fetch(`${url}/metrics`)).text()
    for (const [, continuity = '', count] of text.matchAll(
      /^quotaplane_sessions_total\{.*continuity="(\w+)".*\} (\d+)$/gm,
    )) {
      if (count !== '0') found.add(continuity)
    }
  }
  return [...found]
}
