import { afterEach, describe, expect, it } from 'vitest'
import { EgressLimiter, type EgressOptions } from '../../../client/egress/egress-limiter.ts'
import { serve, type TestServer } from './http-server.ts'

let server: TestServer | undefined
afterEach(async () => {
  await server?.close()
  server = undefined
})

const anEgress = (options: Partial<EgressOptions> = {}): EgressLimiter =>
  new EgressLimiter({ perSecond: 1_000, backoff: { baseMs: 1, maxMs: 5 }, ...options })

/** Answers these statuses in turn, and the last one from then on. */
async function answering(...statuses: readonly number[]): Promise<TestServer> {
  server = await serve((turn, res) => {
    res.statusCode = statuses[Math.min(turn, statuses.length) - 1] ?? 200
    res.end('body')
  })
  return server
}

describe('the egress limiter', () => {
  it('tries a 429 again, also for a POST, and gives the answer that came last', async () => {
    const { url, seen } = await answering(429, 429, 201)
    const response = await anEgress().fetch(url, { method: 'POST', body: 'x' })
    expect(response.status).toBe(201)
    expect(seen.map(({ body }) => body)).toEqual(['x', 'x', 'x'])
  })

  it('gives the 429 itself once its attempts are used up', async () => {
    const { url, seen } = await answering(429)
    const response = await anEgress({ attemptsMax: 3 }).fetch(url)
    expect(response.status).toBe(429)
    expect(await response.text()).toBe('body')
    expect(seen).toHaveLength(3)
  })

  it('repeats a failed call only where the method is idempotent or the caller says so', async () => {
    const { url, seen } = await answering(503, 200, 503, 503, 200)
    expect((await anEgress().fetch(url)).status).toBe(200)
    expect((await anEgress().fetch(url, { method: 'POST' })).status).toBe(503)
    const unsafe = await anEgress().fetch(url, { method: 'POST', retryUnsafe: true })
    expect(unsafe.status).toBe(200)
    expect(seen).toHaveLength(5)
  })

  it('never sends a stream twice', async () => {
    const { url, seen } = await answering(429, 200)
    const body = new Blob(['once']).stream()
    const init = { method: 'POST', body, duplex: 'half' } as const
    expect((await anEgress().fetch(url, init)).status).toBe(429)
    expect(seen).toHaveLength(1)
  })

  it('holds every caller back while the provider asks for a pause', async () => {
    server = await serve((turn, res) => {
      if (turn === 1) res.writeHead(429, { 'retry-after': '0.3' })
      res.end()
    })
    const { url, seen } = server
    const egress = anEgress()
    const startedMs = performance.now()
    const first = egress.fetch(url)
    await expect.poll(() => egress.state.pausedMs).toBeGreaterThan(0)
    const second = egress.fetch(`${url}/second`)
    expect(egress.state.waiting).toBe(1)
    await Promise.all([first, second])
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(299)
    expect(seen).toHaveLength(3)
  })

  it('gives the answer rather than wait beyond the deadline', async () => {
    server = await serve((_turn, res) => res.writeHead(429, { 'retry-after': '3600' }).end())
    const response = await anEgress({ deadlineMs: 5_000 }).fetch(server.url)
    expect(response.status).toBe(429)
    expect(server.seen).toHaveLength(1)
  })

  it('ends at once when its caller gives up, in a wait as in a send', async () => {
    server = await serve((turn, res) => {
      if (turn === 1) res.writeHead(429, { 'retry-after': '60' }).end()
    })
    const egress = anEgress({ deadlineMs: 120_000 })
    const abort = new AbortController()
    const call = egress.fetch(server.url, { signal: abort.signal })
    const ended = expect(call).rejects.toThrow()
    await expect.poll(() => egress.state.pausedMs).toBeGreaterThan(0)
    abort.abort(new Error('gave up'))
    await ended
    expect(egress.state.inFlight).toBe(0)
  })

  it('asks the global quota before each send, and waits as long as it is denied', async () => {
    const { url, seen } = await answering(200)
    const asked: number[] = []
    const decisions = [{ allowed: false, retryAfterMs: 20 }]
    const client = {
      check: ({ cost = 1 }: { readonly cost?: number }) => {
        asked.push(cost)
        return Promise.resolve({ allowed: asked.length > 2, decisions } as never)
      },
    }
    const quota = { client, domain: 'egress', descriptor: { provider: 'mail' } }
    const response = await anEgress({ quota }).fetch(url, { cost: 3 })
    expect(response.status).toBe(200)
    expect(asked).toEqual([3, 3, 3])
    expect(seen).toHaveLength(1)
    const soon = anEgress({ deadlineMs: 10, quota: { ...quota, client: deniedFor(60_000) } })
    await expect(soon.fetch(url)).rejects.toMatchObject({ code: 'EGRESS_QUOTA' })
    expect(soon.state.inFlight).toBe(0)
    expect(seen).toHaveLength(1)
  })

  it.each(['cost_exceeds_capacity', 'deny_all'])(
    'does not wait for a global quota that never admits the call: %s',
    async (reason) => {
      const { url, seen } = await answering(200)
      const decisions = [{ policy: 'egress/mail', allowed: false, retryAfterMs: null, reason }]
      const client = { check: () => Promise.resolve({ allowed: false, decisions } as never) }
      const quota = { client, domain: 'egress', descriptor: { provider: 'mail' } }
      await expect(anEgress({ quota }).fetch(url)).rejects.toMatchObject({
        code: 'EGRESS_QUOTA',
        message: expect.stringContaining('egress/mail never'),
      })
      expect(seen).toEqual([])
    },
  )

  it('takes a date to wait until by the clock of the provider', async () => {
    const days = 86_400_000
    server = await serve((turn, res) => {
      const date = new Date(Date.UTC(2020, 0, 1))
      const until = new Date(date.getTime() + 1_000)
      if (turn === 1)
        res.writeHead(429, { date: date.toUTCString(), 'retry-after': until.toUTCString() })
      res.end()
    })
    const egress = anEgress({ deadlineMs: days })
    const beganMs = performance.now()
    expect((await egress.fetch(server.url)).status).toBe(200)
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(990)
  })

  it('ends a wait with the reason that its caller gave', async () => {
    server = await serve((_turn, res) => {
      res.writeHead(429, { 'retry-after': '30' })
      res.end()
    })
    const caller = new AbortController()
    const call = anEgress().fetch(server.url, { signal: caller.signal })
    await expect.poll(() => server?.seen.length).toBe(1)
    setTimeout(() => caller.abort(new Error('shutting down')), 50)
    await expect(call).rejects.toThrow('shutting down')
  })

  it('runs any work under the same rate and cap', async () => {
    const egress = anEgress({ concurrency: 1 })
    let running = 0
    let most = 0
    const work = async (): Promise<void> => {
      running += 1
      most = Math.max(most, running)
      await new Promise((resolve) => setImmediate(resolve))
      running -= 1
    }
    await Promise.all(Array.from({ length: 20 }, () => egress.run(work)))
    expect(most).toBe(1)
    await expect(egress.run(() => Promise.reject(new Error('mine')))).rejects.toThrow('mine')
    expect(egress.state.inFlight).toBe(0)
  })

  it('refuses options that cannot work, by name', () => {
    expect(() => anEgress({ perSecond: 0 })).toThrow('perSecond must be a number above 0')
    expect(() => anEgress({ concurrency: Number.NaN })).toThrow('concurrency')
  })
})

function deniedFor(retryAfterMs: number) {
  const answer = { allowed: false, decisions: [{ allowed: false, retryAfterMs }] }
  return { check: () => Promise.resolve(answer as never) }
}
