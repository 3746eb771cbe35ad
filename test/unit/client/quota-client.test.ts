import { afterEach, describe, expect, it } from 'vitest'
import { QuotaClient, type QuotaClientOptions } from '../../../client/quota-client.ts'
import { serve, type TestServer } from './http-server.ts'

const servers: TestServer[] = []
const clients: QuotaClient[] = []
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()))
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function aServer(...args: Parameters<typeof serve>): Promise<TestServer> {
  const server = await serve(...args)
  servers.push(server)
  return server
}

function aClient(urls: readonly string[], options: Partial<QuotaClientOptions> = {}): QuotaClient {
  const client = new QuotaClient({ urls, timeoutMs: 5_000, ...options })
  clients.push(client)
  return client
}

const ALLOWED = JSON.stringify({
  allowed: true,
  region: 'r',
  revision: 1,
  degraded: false,
  decisions: [],
})
const check = { domain: 'api', descriptors: [{ tenant: 'acme', route: '/x' }] }

describe('the client', () => {
  it('sends entries in their order, and hands on the rate limit headers', async () => {
    const server = await aServer((_turn, res) => {
      res.writeHead(200, {
        'RateLimit-Policy': '"p";q=5',
        RateLimit: '"p";r=4;t=1',
        'X-Powered-By': 'x',
      })
      res.end(ALLOWED)
    })
    const answer = await aClient([server.url]).check({ ...check, cost: 2 })
    expect(JSON.parse(server.seen[0]?.body ?? '')).toEqual({
      domain: 'api',
      descriptors: [
        {
          entries: [
            { key: 'tenant', value: 'acme' },
            { key: 'route', value: '/x' },
          ],
        },
      ],
      cost: 2,
    })
    expect(answer).toMatchObject({ allowed: true, decidedBy: 'enforcer' })
    expect(answer.headers).toEqual({ 'ratelimit-policy': '"p";q=5', ratelimit: '"p";r=4;t=1' })
  })

  it('sends its token with each request, and refuses one that no header field can hold', async () => {
    const fields: (string | undefined)[] = []
    const server = await aServer((_turn, res, req) => {
      fields.push(req.headers.authorization)
      res.end(ALLOWED)
    })
    await aClient([server.url], { token: 'qp_a_b' }).check(check)
    await aClient([server.url], { token: 'qp_a_b' }).release({ ...check, requestId: 'a' })
    await aClient([server.url]).check(check)
    expect(fields).toEqual(['Bearer qp_a_b', 'Bearer qp_a_b', undefined])
    for (const token of ['', 'qp_a_b\n', 'a b']) {
      expect(() => aClient([server.url], { token })).toThrow('token must have visible ASCII')
    }
  })

  it('asks the next enforcer when one is down or cannot decide, and spreads its calls', async () => {
    const good = await aServer((_turn, res) => res.end(ALLOWED))
    const busy = await aServer((_turn, res) => res.writeHead(503).end('{}'))
    const gone = await serve(() => {})
    await gone.close()
    const client = aClient([gone.url, busy.url, good.url])
    for (let turn = 0; turn < 3; turn++) {
      expect((await client.check(check)).decidedBy).toBe('enforcer')
    }
    expect(good.seen).toHaveLength(3)
    expect(busy.seen.length).toBeGreaterThan(0)
  })

  it('asks an enforcer that says it ends no more while another one answers', async () => {
    const leaving = await aServer((_turn, res) => {
      res.writeHead(200, { connection: 'close' }).end(ALLOWED)
    })
    const staying = await aServer((_turn, res) => res.end(ALLOWED))
    const client = aClient([leaving.url, staying.url])
    for (let turn = 0; turn < 10; turn++) await client.check(check)
    expect([leaving.seen.length, staying.seen.length]).toEqual([1, 9])
    // Where there is nobody else it is asked all the same.
    const alone = aClient([leaving.url])
    for (let turn = 0; turn < 3; turn++) {
      expect((await alone.check(check)).decidedBy).toBe('enforcer')
    }
  })

  it('asks an enforcer that did not answer no more while another one does, but for one whose caller gave up', async () => {
    // The first caller gives up once it is asked for.
    const abort = new AbortController()
    const hanging = await aServer(() => abort.abort())
    const working = await aServer((_turn, res) => res.end(ALLOWED))
    // Long enough for the other one to answer also where the machine is busy.
    const client = aClient([hanging.url, working.url], { timeoutMs: 500 })
    const gaveUp = client.check({ ...check, signal: abort.signal })
    await expect(gaveUp).rejects.toMatchObject({ name: 'AbortError' })
    const answers = []
    for (let turn = 0; turn < 8; turn++) answers.push(await client.check(check))
    expect(answers.filter(({ decidedBy }) => decidedBy === 'client')).toHaveLength(1)
    expect([hanging.seen.length, working.seen.length]).toEqual([2, 7])
  })

  it('never sends a check twice that may have been counted', async () => {
    const broken = await aServer((_turn, res) => res.destroy())
    const good = await aServer((_turn, res) => res.end(ALLOWED))
    const client = aClient([broken.url, good.url], { onUnavailable: 'deny' })
    const answer = await client.check(check)
    expect(answer).toMatchObject({ allowed: false, degraded: true, decidedBy: 'client' })
    expect(good.seen).toHaveLength(0)
  })

  it('decides by its setting when no enforcer answers in time', async () => {
    const silent = await aServer(() => {})
    const waiting = { timeoutMs: 30 }
    expect(await aClient([silent.url], waiting).check(check)).toMatchObject({
      allowed: true,
      degraded: true,
    })
    const deny = aClient([silent.url], { ...waiting, onUnavailable: 'deny' })
    expect((await deny.check(check)).allowed).toBe(false)
    const thrown = aClient([silent.url], { ...waiting, onUnavailable: 'throw' }).check(check)
    await expect(thrown).rejects.toMatchObject({ code: 'QUOTA_CLIENT_UNAVAILABLE' })
  })

  it('throws on a refusal whatever the setting, naming the field and the fix', async () => {
    const problem = {
      detail: 'wrong',
      errors: [{ field: 'cost', message: 'is negative', fix: 'send 1' }],
    }
    const server = await aServer((_turn, res) => res.writeHead(400).end(JSON.stringify(problem)))
    await expect(aClient([server.url]).check(check)).rejects.toThrow('cost is negative (send 1)')
  })

  it('ends at once when its caller aborts', async () => {
    const silent = await aServer(() => {})
    const abort = new AbortController()
    const pending = aClient([silent.url], { timeoutMs: 60_000 }).check({
      ...check,
      signal: abort.signal,
    })
    const ended = expect(pending).rejects.toThrow('gave up')
    await expect.poll(() => silent.seen.length).toBe(1)
    abort.abort(new Error('gave up'))
    await ended
  })

  it('does not take a proxy’s page for an answer', async () => {
    const server = await aServer((_turn, res) => res.end('<html>hello</html>'))
    const client = aClient([server.url], { onUnavailable: 'throw' })
    await expect(client.check(check)).rejects.toThrow('is the url right?')
  })

  it('keeps its connections', async () => {
    const ports = new Set<number | undefined>()
    const server = await aServer((_turn, res, req) => {
      ports.add(req.socket.remotePort)
      res.end(ALLOWED)
    })
    const client = aClient([server.url])
    for (let turn = 0; turn < 50; turn++) await client.check(check)
    // The pool may open one more before it has seen the first answer's end.
    expect(ports.size).toBeLessThanOrEqual(2)
  })
})
