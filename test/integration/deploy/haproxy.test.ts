import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type HaproxyServer, startHaproxy } from '../../support/haproxy-server.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from '../enforcer/region.ts'

let region: TestRegion
let enforcer: TestEnforcer
let application: Server
let haproxy: HaproxyServer

const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port

beforeAll(async () => {
  const hour = { algorithm: 'fixed_window', windowMs: 3_600_000 } as const
  region = await startRegion([
    aPolicy({ name: 'tenants', limits: [{ ...hour, capacity: 1_000 }] }),
    aPolicy({
      name: 'small',
      match: [{ key: 'tenant', value: 'small' }],
      limits: [{ ...hour, capacity: 2 }],
    }),
  ])
  // Behind HAProxy, whose word for the client's address is believed.
  enforcer = await region.startEnforcer({ trustedHops: 1 })
  await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
  application = createServer((_req, res) => res.end('the application')).listen(0, '127.0.0.1')
  await once(application, 'listening')
  haproxy = await startHaproxy({
    folder: 'deploy/gateways',
    replace: {
      'http://127.0.0.1:8080': `http://127.0.0.1:${portOf(enforcer.app.server)}`,
      '127.0.0.1:9000': `127.0.0.1:${portOf(application)}`,
    },
  })
})
afterAll(async () => {
  await haproxy?.stop()
  application?.close()
  application?.closeAllConnections()
  await region?.stop()
})

const ask = (tenant: string) =>
  fetch(`${haproxy.url}/a?b=c`, { headers: { 'x-tenant': tenant, connection: 'close' } })

describe('HAProxy with the example of deploy/gateways', () => {
  it('passes what the limit allows, and tells the client its quota', async () => {
    const reply = await ask('acme')
    expect([reply.status, await reply.text()]).toEqual([200, 'the application'])
    expect(reply.headers.get('ratelimit-policy')).toBe('"tenants";q=1000;w=3600')
    expect(reply.headers.get('ratelimit')).toMatch(/^"tenants";r=999;t=\d+$/)
  })

  it('turns a denial into 429 with the time to wait', async () => {
    expect([(await ask('small')).status, (await ask('small')).status]).toEqual([200, 200])
    const reply = await ask('small')
    expect(reply.status).toBe(429)
    const wait = Number(reply.headers.get('retry-after'))
    expect(wait).toBeGreaterThan(0)
    expect(reply.headers.get('ratelimit')).toBe(`"small";r=0;t=${wait}`)
  })

  it('lets requests pass unlimited while no enforcer answers', async () => {
    await enforcer.close()
    const reply = await ask('small')
    expect([reply.status, await reply.text()]).toEqual([200, 'the application'])
    expect(reply.headers.get('ratelimit')).toBeNull()
  })
})

describe('the examples in Lua', () => {
  it('are of the language that Kong runs', async () => {
    // As Redis does, Kong runs Lua 5.1.
    const [code = ''] = [
      ...readFileSync('deploy/gateways/kong.yaml', 'utf8').matchAll(/- \|\n([\s\S]+)$/g),
    ].map(([, text]) => text)
    const redis = new Redis(region.redis.url)
    expect(code).toContain('resty.http')
    expect(await redis.script('LOAD', code)).toMatch(/^[0-9a-f]{40}$/)
    await expect(redis.script('LOAD', `${code} end`)).rejects.toThrow('compiling script')
    redis.disconnect()
  })
})
