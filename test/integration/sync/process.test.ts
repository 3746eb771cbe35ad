/** The daemon as a process of its own, from the build: what it prints, and how it ends. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { connect } from 'nats'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { decodeFacts, type SyncFacts } from '../../../shared/protocol/facts.ts'
import { FACTS_SUBJECTS } from '../../../shared/protocol/subjects.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { aPolicy, MemoryPlane } from '../../support/memory-plane.ts'
import { type NatsServer, startNats } from '../../support/nats-server.ts'
import { type RedisServer, startRedisServer } from '../../support/redis-server.ts'
import { LOGINS, USER_ARGUMENTS } from '../../support/redis-users.ts'
import { TestAdmin } from './region.ts'

const MAIN = join(PACKAGE_ROOT, 'dist/services/sync/main.js')
const DEADLINE_MS = 4_000

let redis: RedisServer
let nats: NatsServer
let admin: TestAdmin

beforeAll(async () => {
  redis = await startRedisServer({ args: USER_ARGUMENTS })
  nats = await startNats()
  const plane = new MemoryPlane(['us-east-1'])
  plane.put(aPolicy({ base: { 'us-east-1': 1_000_000 } }))
  admin = new TestAdmin(nats.url, plane)
})

afterAll(async () => {
  await admin?.close()
  await nats?.stop()
  await redis?.stop()
})

function launch(change: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [MAIN], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      REGION: 'us-east-1',
      REDIS_URL: redis.url,
      REDIS_USERNAME: LOGINS.sync.username,
      REDIS_PASSWORD: LOGINS.sync.password.reveal(),
      NATS_URL: nats.url,
      SYNC_HOST: '127.0.0.1',
      SYNC_PORT: '0',
      SHUTDOWN_DEADLINE_MS: String(DEADLINE_MS),
      ...change,
    },
  })
  const exited = once(child, 'exit')
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const lines = () => stderr.split('\n').filter((line) => line.startsWith('{'))
  const urlOf = async (): Promise<string> => {
    const line = await vi.waitFor(
      () => {
        const found = lines().find((one) => one.includes('"msg":"listening"'))
        if (found === undefined) throw new Error(`not listening yet:\n${stderr}`)
        return found
      },
      { timeout: 10_000 },
    )
    const { url } = JSON.parse(line)
    return url
  }
  return {
    child,
    urlOf,
    stderr: () => stderr,
    /** Sends the signal and gives the exit code and how long it took. */
    async end(): Promise<{ code: unknown; tookMs: number }> {
      const startMs = performance.now()
      child.kill('SIGTERM')
      const [code] = await exited
      return { code, tookMs: performance.now() - startMs }
    },
    exited,
  }
}

async function untilReady(url: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const reply = await fetch(`${url}/readyz`)
      expect([reply.status, await reply.text()]).toEqual([200, expect.anything()])
    },
    { timeout: 15_000, interval: 50 },
  )
}

/** What each daemon that told of itself says it is. */
function tellers(told: readonly SyncFacts[]): readonly string[] {
  const last = new Map(told.map((facts) => [facts.daemon, facts.isLeading]))
  return [...last.values()].map((isLeading) => (isLeading ? 'leader' : 'standby')).sort()
}

describe('the sync daemon', () => {
  it('says where it listens, tells its health and metrics, and ends with 0 in order', async () => {
    const told: SyncFacts[] = []
    const listener = await connect({ servers: nats.url })
    listener.subscribe(FACTS_SUBJECTS, {
      callback: (_err, message) => {
        const facts = decodeFacts(message.string())
        if (facts !== null) told.push(facts)
      },
    })
    const daemon = launch()
    const url = await daemon.urlOf()
    await untilReady(url)
    expect((await fetch(`${url}/livez`)).status).toBe(200)
    const metrics = await (await fetch(`${url}/metrics`)).text()
    expect(metrics).toContain('quotaplane_leading{region="us-east-1"} 1')
    const second = launch()
    const secondUrl = await second.urlOf()
    await vi.waitFor(
      async () => {
        const reply = await fetch(`${secondUrl}/readyz`)
        expect(reply.status).toBe(503)
        expect(await reply.json()).toMatchObject({
          waitingFor: expect.arrayContaining(['leadership']),
        })
      },
      { timeout: 10_000 },
    )
    await vi.waitFor(() => expect(tellers(told)).toEqual(['leader', 'standby']), {
      timeout: 15_000,
    })
    expect(told.at(-1)?.redis).toMatchObject({ role: 'master', maxmemoryPolicy: 'noeviction' })
    expect(await daemon.end()).toMatchObject({ code: 0 })
    await untilReady(secondUrl)
    await listener.close()
    expect(await second.end()).toMatchObject({ code: 0 })
  })

  it.each([
    ['Redis', () => redis],
    ['NATS', () => nats],
  ])('ends with 0 inside its deadline also while %s hangs', async (_, server) => {
    const daemon = launch()
    await untilReady(await daemon.urlOf())
    server().pause()
    try {
      const { code, tookMs } = await daemon.end()
      expect(code).toBe(0)
      expect(tookMs).toBeLessThan(DEADLINE_MS)
    } finally {
      server().resume()
    }
  })

  it('starts without Redis and NATS, says so, and leads once they come', async () => {
    await nats.halt()
    await redis.kill()
    const daemon = launch()
    const url = await daemon.urlOf()
    const reply = await fetch(`${url}/readyz`)
    expect(reply.status).toBe(503)
    expect(await reply.json()).toMatchObject({ waitingFor: expect.arrayContaining(['store']) })
    await redis.restart()
    await nats.start()
    await untilReady(url)
    expect(await daemon.end()).toMatchObject({ code: 0 })
  })

  it('names every setting that is wrong, and exits with 1', async () => {
    const daemon = launch({ REGION: 'US East', REDIS_URL: 'nowhere', NATS_URL: '' })
    const [code] = await daemon.exited
    expect(code).toBe(1)
    expect(daemon.stderr()).toMatch(/REGION[\s\S]*REDIS_URL[\s\S]*NATS_URL/)
  })
})
