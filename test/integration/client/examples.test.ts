import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { QuotaClient } from '../../../client/mod.ts'
import { createServer as createExpress } from '../../../docs/examples/express-server.ts'
import { createServer as createFastify } from '../../../docs/examples/fastify-server.ts'
import { createLeasingClient, mayRun } from '../../../docs/examples/leased-checks.ts'
import { createMailer } from '../../../docs/examples/send-mail.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { serve } from '../../unit/client/http-server.ts'
import { aPolicy, startRegion, type TestRegion } from '../enforcer/region.ts'

const HOUR_MS = 3_600_000

let region: TestRegion
let client: QuotaClient
let url: string

beforeAll(async () => {
  const limits = [{ capacity: 2, windowMs: HOUR_MS, name: 'per-hour' }]
  region = await startRegion([
    aPolicy({ domain: 'api', name: 'per-tenant', match: [{ key: 'tenant' }], limits }),
    aPolicy({
      domain: 'work',
      match: [{ key: 'pool' }],
      limits: [{ algorithm: 'concurrency', capacity: 1, windowMs: HOUR_MS }],
    }),
    aPolicy({ domain: 'egress', match: [{ key: 'provider' }], limits }),
    aPolicy({ domain: 'jobs', limits: [{ capacity: 100_000, windowMs: HOUR_MS }] }),
  ])
  const enforcer = await region.startEnforcer({ leases: true })
  url = await enforcer.app.listen({ host: '127.0.0.1', port: 0 })
  client = new QuotaClient({ urls: [url], timeoutMs: 5_000 })
})
afterAll(async () => {
  await client.close()
  await region.stop()
})

/** What the third of three requests of a tenant is answered; the first two pass. */
async function thirdOf(url: string, tenant: string): Promise<Response> {
  const ask = () => fetch(`${url}/orders`, { headers: { 'x-tenant': tenant } })
  for (let turn = 0; turn < 2; turn++) {
    const passed = await ask()
    expect(passed.status).toBe(200)
    expect(await passed.json()).toEqual({ orders: [] })
  }
  return await ask()
}

async function expectDenial(response: Response): Promise<void> {
  expect(response.status).toBe(429)
  expect(response.headers.get('content-type')).toContain('application/problem+json')
  const seconds = Number(response.headers.get('retry-after'))
  expect(seconds).toBeGreaterThan(1_700)
  expect(await response.json()).toMatchObject({
    status: 429,
    'violated-policies': ['api/per-tenant/per-hour'],
  })
}

describe('the examples of the client', () => {
  it('are what the page shows', async () => {
    const page = await readFile(join(PACKAGE_ROOT, 'docs/client.md'), 'utf8')
    for (const name of ['fastify-server', 'express-server', 'send-mail', 'leased-checks']) {
      const code = await readFile(join(PACKAGE_ROOT, `docs/examples/${name}.ts`), 'utf8')
      expect(page).toContain(code.replace('../../client/mod.ts', 'quotaplane/client').trim())
    }
  })

  it('limit a Fastify server by tenant, and a denied request never reaches its handler', async () => {
    const app = await createFastify(client)
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    await expectDenial(await thirdOf(url, 'fastify'))
    expect((await fetch(`${url}/orders`, { headers: { 'x-tenant': 'other' } })).status).toBe(200)
    await app.close()
  })

  it('limit an Express server the same way', async () => {
    const listener = createExpress(client).listen(0, '127.0.0.1')
    await new Promise((resolve) => listener.once('listening', resolve))
    const { port } = listener.address() as AddressInfo
    await expectDenial(await thirdOf(`http://127.0.0.1:${port}`, 'express'))
    listener.closeAllConnections()
    await new Promise((resolve) => listener.close(resolve))
  })

  it('send no mail beyond the global quota', async () => {
    const provider = await serve((_turn, res) => res.end())
    const sendMail = createMailer(client, provider.url)
    expect(await sendMail('a@example.org')).toBe(true)
    expect(await sendMail('b@example.org')).toBe(true)
    await expect(sendMail('c@example.org')).rejects.toMatchObject({ code: 'EGRESS_QUOTA' })
    expect(provider.seen).toHaveLength(2)
    await provider.close()
  })
})

describe('the example of leases', () => {
  it('answers out of blocks once a key is checked often, and gives back what is left', async () => {
    const leasing = createLeasingClient([url])
    const answers = async () => {
      const all = await Promise.all(Array.from({ length: 40 }, () => mayRun(leasing, 'acme')))
      expect(all.every(({ allowed }) => allowed)).toBe(true)
      return all.map(({ where }) => where)
    }
    expect(await answers()).toContain('enforcer')
    await expect.poll(answers, { timeout: 10_000, interval: 1 }).toContain('lease')
    await leasing.close()
    expect(leasing.leaseCounts?.admitted).toBeGreaterThan(0)
    expect(leasing.leaseCounts?.keys).toBe(0)
  })
})

describe('what a check took', () => {
  it('comes back once by a refund, however often it is sent', async () => {
    const check = { domain: 'api', descriptors: [{ tenant: 'refunded' }], requestId: 'r-1' }
    const answer = await client.check(check)
    expect(await client.refund(check, answer)).toBe('refunded')
    expect(await client.refund(check, answer)).toBe('repeated')
    const { requestId: _none, ...peek } = { ...check, cost: 0 }
    expect((await client.check(peek)).decisions[0]?.remaining).toBe(2)
    expect(await client.refund(check, {})).toBe('nothing')
  })

  it('is held while its work runs, and freed whichever way that ends', async () => {
    const check = { domain: 'work', descriptors: [{ pool: 'render' }] }
    let end: () => void = () => {}
    const first = client.hold(
      check,
      () =>
        new Promise<void>((resolve) => {
          end = resolve
        }),
    )
    await expect.poll(() => client.hold(check, async () => 'second')).toBeNull()
    end()
    await first
    await expect(client.hold(check, () => Promise.reject(new Error('mine')))).rejects.toThrow(
      'mine',
    )
    expect(await client.hold(check, async () => 'third')).toEqual({ value: 'third' })
  })
})
