import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createEnforcerApp } from '../../../services/enforcer/app.ts'
import { CheckObserver } from '../../../services/enforcer/check-observer.ts'
import { DecisionLog } from '../../../services/enforcer/decision-log.ts'
import { createEnforcerMetrics } from '../../../services/enforcer/metrics.ts'
import { RouteTable } from '../../../services/enforcer/routes.ts'
import { StoreGuard } from '../../../services/enforcer/store-guard.ts'
import { buildPolicyIndex, type PolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { DRAFT_HEADERS } from '../../../shared/protocol/rate-limit-headers.ts'
import { systemClock } from '../../../shared/runtime/clock.ts'
import { createLogger } from '../../../shared/runtime/logger.ts'
import { createRegistry } from '../../../shared/runtime/metrics.ts'
import { NEVER_ASKED } from '../../support/idle-store.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'
import { askByPromise } from '../../support/sole-check.ts'

const ADMIT = { allowed: true, reason: null, remaining: 9, resetMs: 100, retryAfterMs: null }
const REFUSE = { ...ADMIT, allowed: false, reason: 'limit', retryAfterMs: 1_200 } as const
const VALID = { domain: 'api', descriptors: [{ entries: [{ key: 'tenant', value: 'acme' }] }] }

let app: FastifyInstance
let url: string
let index: PolicyIndex | null
let answer: () => Promise<CheckAnswer>

beforeEach(async () => {
  index = buildPolicyIndex({ version: 1, incarnation: 1, policies: [aRegionPolicy()] }, null)
  answer = async () => ({ atUs: 1, decisions: [ADMIT] })
  const registry = createRegistry({ region: 'us-east-1' }, false)
  const metrics = createEnforcerMetrics(registry)
  app = createEnforcerApp({
    region: 'us-east-1',
    clock: systemClock,
    headers: DRAFT_HEADERS,
    sender: { trustedHops: 0, ipv6Prefix: 64 },
    log: createLogger({ service: 'test', level: 'silent' }),
    registry,
    isRunning: () => true,
    inFlight: { count: 0, max: 2 },
    observer: new CheckObserver(new DecisionLog(systemClock), undefined),
    context: {
      store: {
        check: () => answer(),
        ask: (check) => askByPromise({ check: () => answer() }, check),
        giveBack: async () => {},
        ...NEVER_ASKED,
      },
      policies: { current: () => index, refresh: async () => {} },
      routes: new RouteTable(metrics.cellsOf),
      guard: new StoreGuard({ clock: systemClock, onChange: () => {} }),
      metrics,
    },
  })
  url = await app.listen({ port: 0 })
})
afterEach(() => app.close())

const FIELDS = ['content-type', 'content-length', 'ratelimit', 'ratelimit-policy'] as const

/** Over the socket, which plain checks do not leave for the framework. */
async function overSocket(body: string) {
  const headers = { 'content-type': 'application/json' }
  const reply = await fetch(`${url}/v1/check`, { method: 'POST', headers, body })
  const fields = FIELDS.map((name) => reply.headers.get(name))
  return [reply.status, withoutIds(await reply.text()), fields]
}

/** Past the server, so by the framework alone. */
async function byFramework(body: string) {
  const headers = { 'content-type': 'application/json' }
  const reply = await app.inject({ method: 'POST', url: '/v1/check', headers, payload: body })
  const fields = FIELDS.map((name) => reply.headers[name]?.toString() ?? null)
  return [reply.statusCode, withoutIds(reply.body), fields]
}

/** Ids of requests are numbered by the framework. */
function withoutIds(text: string): string {
  return text.replace(/"requestId":"req-[^"]*"/, '"requestId":"…"')
}

describe('POST /v1/check on the server itself', () => {
  it.each([
    ['a check', JSON.stringify(VALID)],
    ['a check with an id', JSON.stringify({ ...VALID, requestId: 'mine' })],
    ['an id beyond ASCII', JSON.stringify({ ...VALID, requestId: 'Ω\u2028😀' })],
    ['a wrong cost', JSON.stringify({ ...VALID, cost: -1 })],
    ['no JSON', '{"domain":'],
    ['another kind of JSON', '[]'],
    ['what no policy governs', JSON.stringify({ ...VALID, domain: 'é'.repeat(20) })],
  ])('answers %s as the framework does', async (_name, body) => {
    expect(await overSocket(body)).toEqual(await byFramework(body))
  })

  it('answers a denial as the framework does', async () => {
    answer = async () => ({ atUs: 1, decisions: [REFUSE] })
    const body = JSON.stringify(VALID)
    expect(await overSocket(body)).toEqual(await byFramework(body))
  })

  it('answers what the store cannot decide as the framework does, also before any policies', async () => {
    const body = JSON.stringify(VALID)
    answer = () => Promise.reject(new QuotaError('QUOTA_STORE_UNAVAILABLE', 'gone'))
    expect(await overSocket(body)).toEqual(await byFramework(body))
    index = null
    expect((await overSocket(body))[0]).toBe(503)
    expect(await overSocket(body)).toEqual(await byFramework(body))
  })
})

/** What the server says on one connection to `sent`, part by part, until `answers` of them have come or it closes. */
function onOneConnection(sent: readonly string[], answers: number): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let said = ''
  socket.setEncoding('latin1')
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.once('close', () => resolve(said))
    socket.on('data', (text) => {
      said += text
      if (said.split('HTTP/1.1 ').length > answers && said.endsWith('}')) socket.destroy()
    })
    let next = 0
    const sendNext = (): void => {
      socket.write(sent[next++] ?? '')
      // A turn between them, so that they arrive apart.
      if (next < sent.length) setTimeout(sendNext, 5)
    }
    socket.once('connect', sendNext)
  })
}

function request(body: object, fields = ''): string {
  const text = JSON.stringify(body)
  const head = `host: here\r\ncontent-type: application/json\r\n${fields}`
  return `POST /v1/check HTTP/1.1\r\n${head}content-length: ${text.length}\r\n\r\n${text}`
}

describe('a connection with plain checks', () => {
  it('has the same header fields on an answer of either way, those of the connection too', async () => {
    const plain = await onOneConnection([request(VALID)], 1)
    // A charset makes it the framework's.
    const framework = request(VALID).replace('application/json', 'application/json; charset=utf-8')
    const other = await onOneConnection([framework], 1)
    const fieldsOf = (text: string): string[] =>
      text
        .split('\r\n')
        .map((line) => line.replace(/^(date): .*/i, '$1'))
        .sort()
    expect(fieldsOf(plain)).toEqual(fieldsOf(other))
    expect(plain).toMatch(/\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/)
  })

  it('is answered in order, whatever is answered first', async () => {
    const waiting: (() => void)[] = []
    answer = () =>
      new Promise((resolve) => {
        waiting.push(() => resolve({ atUs: 1, decisions: [ADMIT] }))
        // The later one is decided first.
        if (waiting.length === 2) for (const decide of waiting.reverse()) setImmediate(decide)
      })
    const both = ['first', 'second'].map((requestId) => request({ ...VALID, requestId }))
    const said = await onOneConnection([both.join('')], 2)
    expect(said.split('HTTP/1.1 200 OK')).toHaveLength(3)
    expect(said.indexOf('"first"')).toBeGreaterThan(0)
    expect(said.indexOf('"second"')).toBeGreaterThan(said.indexOf('"first"'))
  })

  it('takes one after another, plain ones and others, and bodies that arrive in parts', async () => {
    const plain = request({ ...VALID, requestId: 'plain' })
    const invalid = request({ ...VALID, cost: -1 })
    const query = request({ ...VALID, requestId: 'query' }).replace('/check', '/check?deny=429')
    const parts = [plain.slice(0, -30), plain.slice(-30, -10), plain.slice(-10)]
    const said = await onOneConnection([...parts, invalid, query, ...parts], 4)
    const statuses = [...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)
    expect(statuses).toEqual(['200', '400', '200', '200'])
    const ids = [...said.matchAll(/"requestId":"(plain|query)"/g)].map(([, id]) => id)
    expect(ids).toEqual(['plain', 'query', 'plain'])
  })

  it.each([
    ['asks for it', request(VALID, 'connection: close\r\n')],
    ['speaks HTTP/1.0', request(VALID).replace('HTTP/1.1', 'HTTP/1.0')],
  ])('ends after its answer where the caller %s', async (_name, text) => {
    // Never as many answers: only the server can end it.
    const said = await onOneConnection([text], 2)
    expect(said).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(said).toMatch(/\r\nconnection: close\r\n/i)
    expect(said.endsWith('}')).toBe(true)
  })

  it('may end before its answer, and others go on', async () => {
    let decide = (): void => {}
    const asked = new Promise<void>((begun) => {
      answer = () =>
        new Promise((resolve) => {
          decide = () => resolve({ atUs: 1, decisions: [ADMIT] })
          begun()
        })
    })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(request(VALID))
    await asked
    const gone = new Promise<void>((resolve) => app.server.once('connection', () => resolve()))
    socket.destroy()
    answer = async () => ({ atUs: 1, decisions: [ADMIT] })
    const other = overSocket(JSON.stringify(VALID))
    await gone
    decide()
    expect((await other)[0]).toBe(200)
    expect((await overSocket(JSON.stringify(VALID)))[0]).toBe(200)
  })
})
