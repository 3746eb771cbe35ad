import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { AdminClient } from '../../../services/cli/admin-client.ts'
import { Pulse } from '../../../services/cli/pulse.ts'
import { serve, type TestServer } from '../client/http-server.ts'

let server: TestServer | null = null
let pulse: Pulse | null = null
afterEach(async () => {
  pulse?.close()
  await server?.close()
})

/** A watcher of shares of the domain api that counts its looks, as fast as it is told to. */
async function watch(answer: (turn: number, res: ServerResponse) => void) {
  server = await serve(answer)
  const client = new AdminClient({ url: server.url, token: 'token' })
  const live = { client, events: ['shares'], domain: 'api' } as const
  const signal = new AbortController().signal
  const started = new Pulse({ live, intervalS: 0.001, signal })
  pulse = started
  const seen = { looks: 0, isOver: false }
  const looking = async (): Promise<void> => {
    while (await started.next()) seen.looks++
    seen.isOver = true
  }
  void looking()
  return { seen, server }
}

const open = (res: ServerResponse): void => {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  tell(res, 'snapshot')
}
const tell = (res: ServerResponse, event: string): void =>
  void res.write(`id: 1\nevent: ${event}\ndata: {}\n\n`)

/** Waits until nothing is looked at any more. */
async function atRest(seen: { readonly looks: number }): Promise<number> {
  let before = -1
  await vi.waitFor(
    () => {
      const isSame = before === seen.looks
      before = seen.looks
      expect(isSame).toBe(true)
    },
    { interval: 50, timeout: 5_000 },
  )
  return before
}

describe('a watcher', () => {
  it('looks once for each thing that the stream tells of what it watches, and at no other time', async () => {
    let stream: ServerResponse | undefined
    const { seen, server: admin } = await watch((_turn, res) => {
      stream = res
      open(res)
    })
    const before = await atRest(seen)
    expect(admin.seen).toMatchObject([{ path: '/v1/stream?domain=api' }])
    if (stream === undefined) throw new Error('the stream was opened')
    for (const more of [1, 2, 3]) {
      tell(stream, 'usage')
      tell(stream, 'regions')
      tell(stream, 'shares')
      await vi.waitFor(() => expect(seen.looks).toBe(before + more))
    }
  })

  it('goes by the clock where there is no stream, and does not ask for it again', async () => {
    const { seen, server: admin } = await watch((_turn, res) => {
      res.writeHead(404, { 'content-type': 'application/problem+json' })
      res.end('{"status":404,"detail":"no such route"}')
    })
    await vi.waitFor(() => expect(seen.looks).toBeGreaterThan(20))
    expect(admin.seen).toHaveLength(1)
  })

  it('goes by the clock while the stream is broken, and comes back to it', async () => {
    const streams: ServerResponse[] = []
    const { seen } = await watch((_turn, res) => {
      streams.push(res)
      open(res)
    })
    const before = await atRest(seen)
    streams[0]?.destroy()
    await vi.waitFor(() => expect(seen.looks).toBeGreaterThan(before + 5), { timeout: 5_000 })
    await vi.waitFor(() => expect(streams).toHaveLength(2), { timeout: 5_000 })
    const later = await atRest(seen)
    const [, second] = streams
    if (second === undefined) throw new Error('the stream was opened again')
    tell(second, 'shares')
    await vi.waitFor(() => expect(seen.looks).toBe(later + 1))
  })

  it('ends at once when it is closed, in the middle of a quiet stream', async () => {
    const { seen } = await watch((_turn, res) => open(res))
    await atRest(seen)
    pulse?.close()
    await vi.waitFor(() => expect(seen.isOver).toBe(true))
  })
})
