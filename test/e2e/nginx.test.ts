import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { aPolicy, startRegion, type TestRegion } from '../integration/enforcer/region.ts'
import { freePorts } from '../support/free-ports.ts'
import { type NginxServer, startNginx } from '../support/nginx-server.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'

const MAIN = join(PACKAGE_ROOT, 'dist/services/enforcer/main.js')
const EXAMPLE = join(PACKAGE_ROOT, 'deploy/gateways/nginx.conf')

/** Requests that are under way at a time while enforcers are restarted. */
const CALLERS = 8

let region: TestRegion
let application: Server
let nginx: NginxServer
let ports: readonly number[]
const enforcers: ServerProcess[] = []

async function startEnforcer(port: number | undefined): Promise<ServerProcess> {
  const env = {
    PATH: process.env['PATH'],
    REGION: 'us-east-1',
    REDIS_URL: region.redis.url,
    REDIS_DEADLINE_MS: '2000',
    ENFORCER_PORT: String(port),
    ENFORCER_GRPC_PORT: '0',
    DRAIN_DELAY_MS: '200',
  }
  const started = await startServer(process.execPath, [MAIN], '"msg":"listening"', { env })
  await vi.waitFor(
    async () => {
      if ((await fetch(`http://127.0.0.1:${port}/readyz`)).status !== 200)
        throw new Error('not ready')
    },
    { timeout: 20_000, interval: 20 },
  )
  return started
}

beforeAll(async () => {
  const limits = [{ algorithm: 'fixed_window', windowMs: 3_600_000 }] as const
  region = await startRegion([
    aPolicy({ name: 'tenants', limits: [{ ...limits[0], capacity: 1_000_000 }] }),
    aPolicy({
      name: 'small',
      match: [{ key: 'tenant', value: 'small' }],
      limits: [{ ...limits[0], capacity: 2 }],
    }),
  ])
  application = createServer((_req, res) => res.end('the application')).listen(0, '127.0.0.1')
  await once(application, 'listening')
  ports = await freePorts(3)
  for (const port of ports.slice(0, 2)) enforcers.push(await startEnforcer(port))
  nginx = await startNginx({
    example: EXAMPLE,
    port: ports[2] ?? 0,
    replace: {
      '127.0.0.1:8080': `127.0.0.1:${ports[0]}`,
      '127.0.0.1:8180': `127.0.0.1:${ports[1]}`,
      '127.0.0.1:9000': `127.0.0.1:${(application.address() as AddressInfo).port}`,
    },
  })
})
afterAll(async () => {
  await nginx?.stop()
  await Promise.all(enforcers.map((enforcer) => enforcer.stop('SIGKILL')))
  application?.close()
  application?.closeAllConnections()
  await region?.stop()
})

const ask = (tenant: string) =>
  fetch(`${nginx.url}/a?b=c`, { headers: { 'x-tenant': tenant, connection: 'close' } })

describe('nginx with auth_request', () => {
  it('passes what the limit allows, and tells the client its quota', async () => {
    const reply = await ask('acme')
    expect(reply.status).toBe(200)
    expect(await reply.text()).toBe('the application')
    expect(reply.headers.get('ratelimit-policy')).toBe('"tenants";q=1000000;w=3600')
    expect(reply.headers.get('ratelimit')).toMatch(/^"tenants";r=\d+;t=\d+$/)
  })

  it('turns a denial into 429 with the time to wait', async () => {
    const statuses = []
    for (let turn = 0; turn < 2; turn++) statuses.push((await ask('small')).status)
    expect(statuses).toEqual([200, 200])
    const reply = await ask('small')
    expect(reply.status).toBe(429)
    const wait = Number(reply.headers.get('retry-after'))
    expect(wait).toBeGreaterThan(0)
    expect(reply.headers.get('ratelimit')).toBe(`"small";r=0;t=${wait}`)
    expect(reply.headers.get('content-type')).toContain('application/problem+json')
    expect(await reply.json()).toMatchObject({ status: 429 })
  })

  it('fails no request while both enforcers are restarted one after the other (B052)', async () => {
    const dispatcher = new Agent({ connections: CALLERS })
    let isOver = false
    let asked = 0
    const failed: string[] = []
    const caller = async (): Promise<void> => {
      while (!isOver) {
        const headers = { 'x-tenant': `t${asked++ % 100}` }
        const reply = await request(nginx.url, { headers, dispatcher })
        const text = await reply.body.text()
        const isLimited = reply.headers['ratelimit'] !== undefined
        if (reply.statusCode !== 200 || !isLimited) failed.push(`${reply.statusCode} ${text}`)
      }
    }
    const callers = Array.from({ length: CALLERS }, caller)
    const exits = []
    for (const [index, port] of ports.slice(0, 2).entries()) {
      const before = asked
      await expect.poll(() => asked, { timeout: 20_000 }).toBeGreaterThan(before + 100)
      const old = enforcers[index]
      if (old === undefined) throw new Error('two enforcers')
      const exited = once(old.child, 'exit')
      old.child.kill('SIGTERM')
      exits.push((await exited)[0])
      enforcers[index] = await startEnforcer(port)
    }
    const before = asked
    await expect.poll(() => asked, { timeout: 20_000 }).toBeGreaterThan(before + 100)
    isOver = true
    await Promise.all(callers)
    await dispatcher.close()
    expect(exits).toEqual([0, 0])
    expect(failed.slice(0, 5)).toEqual([])
  })

  it('lets requests pass unlimited while no enforcer answers', async () => {
    await Promise.all(enforcers.map((enforcer) => enforcer.stop('SIGKILL')))
    expect((await ask('small')).status).toBe(200)
  })
})
