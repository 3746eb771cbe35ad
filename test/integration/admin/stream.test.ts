import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { StreamClient } from '../../../services/admin/stream/stream-client.ts'
import { CLIENTS_MAX, CLIENTS_OF_ONE_MAX } from '../../../services/admin/stream/stream-hub.ts'
import { counterId } from '../../../shared/core/counter-id.ts'
import { aRecord, aRow } from './a-record.ts'
import { type Admin, AUTHORIZED, startAdmin } from './admin-harness.ts'

let admin: Admin
let url: string
let limitId: number

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  limitId = (await admin.create()).body.limits[0].id
  await admin.create({ domain: 'web', name: 'other' })
  await admin.follower.stepOnce()
  url = await admin.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => await admin.close())

const opened: Stream[] = []
afterEach(() => {
  for (const stream of opened.splice(0)) stream.close()
})

interface Event {
  readonly id: string
  readonly name: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads the fields it names, and fails on others.
  readonly data: any
}

/** A client of the stream, by hand: it sees what goes over the wire. */
interface Stream {
  readonly status: number
  readonly type: string | null
  /** The next event of that name, whatever else comes before it. */
  next(name: string): Promise<Event>
  /** Resolves when the other side has ended the stream. */
  ended(): Promise<void>
  close(): void
}

async function open(
  query = '',
  headers: Readonly<Record<string, string>> = AUTHORIZED,
): Promise<Stream> {
  const cut = new AbortController()
  const response = await fetch(`${url}/v1/stream${query}`, { headers, signal: cut.signal })
  const events = eventsOf(response)
  const stream: Stream = {
    status: response.status,
    type: response.headers.get('content-type'),
    async next(name) {
      for (;;) {
        const { value, done } = await events.next()
        if (done === true) throw new Error(`the stream ended before ${name}`)
        if (value.name === name) return value
      }
    },
    async ended() {
      while ((await events.next()).done !== true);
    },
    close: () => cut.abort(),
  }
  opened.push(stream)
  return stream
}

async function* eventsOf(response: Response): AsyncGenerator<Event, undefined> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = new Map(
        block.split('\n').map((line) => {
          const at = line.indexOf(': ')
          return [line.slice(0, at), line.slice(at + 2)] as const
        }),
      )
      const [id = '', name, data] = ['id', 'event', 'data'].map((field) => fields.get(field))
      if (name !== undefined) yield { id, name, data: JSON.parse(data ?? 'null') }
    }
  }
  return undefined
}

/** A second goes by, and admin tells of it. */
async function tick(): Promise<void> {
  admin.clock.nowMs += 1_000
  await admin.stream.tickOnce()
}

function report(admitted: number): void {
  const window = Math.floor(admin.clock.nowMs / 1_000)
  const usage = [{ limitId, usageEpoch: 0, window, admitted, denied: 0, returned: 0 }]
  const id = counterId({ group: 0, limitId, usageEpoch: 0, name: 'tenant=acme' })
  admin.follower.hear(aRecord({ usage, rows: [aRow(id, { share: 400_000 + admitted })] }))
}

describe('a stream', () => {
  it('begins with all there is and goes on with what changes', async () => {
    report(5)
    const stream = await open()
    expect(stream).toMatchObject({ status: 200, type: 'text/event-stream' })
    const { data } = await stream.next('snapshot')
    expect(data.revision).toBe(admin.cache.revision)
    expect(data.regions.regions).toHaveLength(2)
    expect(data.shares.limits).toMatchObject([{ limitId, keys: [{ key: 'tenant=acme' }] }])
    expect(data.usage.limits).toMatchObject([{ policy: 'per-tenant', seconds: [{}] }])
    report(9)
    await tick()
    expect((await stream.next('regions')).data.regions[1]).toMatchObject({ isReporting: true })
    const shares = await stream.next('shares')
    expect(shares.data.limits[0].keys[0].regions[0].share.units).toBe(400_009)
    expect((await stream.next('usage')).data.limits[0].seconds.at(-1).total.admitted).toBe(9)
    await admin.create({ name: 'later', match: [{ key: 'later' }] })
    await admin.follower.stepOnce()
    await tick()
    const { revision } = (await stream.next('revisions')).data
    expect(revision).toBe(admin.cache.revision)
    expect((await stream.next('rollouts')).data).toMatchObject({ revision, isComplete: false })
  })

  it('says nothing twice: shares that stay as they are are not told again', async () => {
    report(5)
    const stream = await open()
    await stream.next('snapshot')
    await tick()
    await tick()
    report(6)
    await tick()
    const first = await stream.next('shares')
    expect(first.data.limits[0].keys[0].regions[0].share.units).toBe(400_006)
  })

  it('is resumed where it broke off, without a gap, while somebody listened on', async () => {
    const other = await open()
    const stream = await open()
    const { id } = await stream.next('snapshot')
    stream.close()
    await tick()
    await tick()
    const resumed = await open('', { ...AUTHORIZED, 'last-event-id': id })
    const first = await resumed.next('regions')
    const [generation, number] = id.split('-')
    expect(first.id).toBe(`${generation}-${Number(number) + 1}`)
    other.close()
  })

  it.each(['nonsense', 'abcdef01-1', ''])(
    'begins anew after the unknown event "%s"',
    async (id) => {
      const stream = await open('', { ...AUTHORIZED, 'last-event-id': id })
      expect((await stream.next('snapshot')).data.revision).toBe(admin.cache.revision)
    },
  )

  it('tells of one domain or policy where that is asked for', async () => {
    report(5)
    const stream = await open('?domain=web')
    const { data } = await stream.next('snapshot')
    expect([data.shares.limits, data.usage.limits]).toEqual([[], []])
    const named = await open('?domain=api&policy=per-tenant')
    expect((await named.next('snapshot')).data.shares.limits).toHaveLength(1)
  })

  it('gives a token that is limited to domains no other', async () => {
    const made = await admin.call('POST', '/v1/tokens', {
      name: 'web-only',
      scopes: ['quota:read'],
      domains: ['web'],
    })
    const headers = { authorization: `Bearer ${made.body.token}` }
    for (const query of ['', '?domain=api']) {
      expect((await open(query, headers)).status).toBe(403)
    }
    expect((await open('?domain=web', headers)).status).toBe(200)
    expect((await open('', { authorization: 'Bearer wrong' })).status).toBe(401)
  })

  it('ends within seconds when its token is revoked, and says so', async () => {
    const { body } = await admin.call('POST', '/v1/tokens', { name: 'w', scopes: ['quota:read'] })
    const stream = await open('', { authorization: `Bearer ${body.token}` })
    await stream.next('snapshot')
    await admin.call('DELETE', `/v1/tokens/${body.id}`)
    for (let second = 0; second < 5; second++) await tick()
    expect((await stream.next('end')).data.reason).toBe('token')
    await stream.ended()
    expect(admin.stream.clients).toBe(0)
  })
})

describe('the streams of an admin', () => {
  it('are at most so many, and the next is told so', async () => {
    const stay = async () => true
    const response = { write: () => true, end: () => {}, writableLength: 0, once: () => {} }
    const clients = Array.from({ length: CLIENTS_MAX }, (_, at) => {
      const filter = { domain: null, policy: null, domains: null }
      const actor = `token:${at % 10}`
      return new StreamClient({
        response: response as never,
        actor,
        filter,
        mayStay: stay,
        nowMs: 0,
      })
    })
    for (const client of clients) admin.stream.open(client, null)
    const answer = await admin.call('GET', '/v1/stream')
    expect(answer).toMatchObject({ status: 503, body: { code: 'QUOTA_OVERLOADED' } })
    for (const client of clients) admin.stream.leave(client)
    expect(admin.stream.clients).toBe(0)
  })

  it('are at most a fifth of all those of one token, whose next one is told what to do, and no other token is', async () => {
    const make = (name: string) =>
      admin.call('POST', '/v1/tokens', { name, scopes: ['quota:read'] })
    const [leaking, other] = [await make('leaking'), await make('other')]
    const headers = { authorization: `Bearer ${leaking.body.token}` }
    const streams: Stream[] = []
    for (let at = 0; at < CLIENTS_OF_ONE_MAX; at++) streams.push(await open('', headers))
    expect(streams.map(({ status }) => status)).toEqual(streams.map(() => 200))
    const answer = await admin.call('GET', '/v1/stream', undefined, headers)
    expect(answer).toMatchObject({ status: 429, body: { code: 'QUOTA_TOO_MANY_REQUESTS' } })
    expect(answer.body.detail).toMatch(/^token:leaking has 40 streams open.*close some/)
    expect((await open('', { authorization: `Bearer ${other.body.token}` })).status).toBe(200)
    const { body } = await admin.app.inject({ url: '/metrics' })
    expect(body).toMatch(/quotaplane_admin_streams_refused_total\{[^}]*reason="token"[^}]*\} 1/)
    streams[0]?.close()
    await expect.poll(() => admin.stream.clients, { timeout: 10_000 }).toBe(CLIENTS_OF_ONE_MAX)
    expect((await open('', headers)).status).toBe(200)
  })

  it('drop a client that takes nothing, with a last word, and no other', async () => {
    const written: string[] = []
    const slow = {
      writableLength: 2 * 1024 * 1024,
      write: (text: string) => written.push(text) > 0,
      end: (text: string) => written.push(text),
      once: (_event: string, closed: () => void) => closed(),
    }
    const stream = await open()
    await stream.next('snapshot')
    const filter = { domain: null, policy: null, domains: null }
    const actor = 'token:slow'
    const mayStay = async () => true
    admin.stream.open(
      new StreamClient({ response: slow as never, actor, filter, mayStay, nowMs: 0 }),
      null,
    )
    await tick()
    expect(written).toHaveLength(1)
    expect(written[0]).toMatch(/^event: end\ndata: \{"reason":"slow"/)
    expect(admin.stream.clients).toBe(1)
    await stream.next('regions')
  })

  it('end when admin stops, so that it can', async () => {
    const stopping = await startAdmin({ url: admin.url })
    const at = await stopping.app.listen({ host: '127.0.0.1', port: 0 })
    const response = await fetch(`${at}/v1/stream`, { headers: AUTHORIZED })
    await stopping.close()
    expect(await response.text()).toContain('"reason":"stopping"')
  })
})
