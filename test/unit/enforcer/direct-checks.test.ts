import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildPolicyIndex, type PolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer } from '../../../shared/core/ports.ts'
import { QuotaError } from '../../../shared/errors.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'
import { ADMIT, listeningApp, onOneConnection, request, VALID } from './listening-app.ts'

const REFUSE = { ...ADMIT, allowed: false, reason: 'limit', retryAfterMs: 1_200 } as const

let app: FastifyInstance
let url: string
let index: PolicyIndex | null
let answer: () => Promise<CheckAnswer>

beforeEach(async () => {
  index = buildPolicyIndex({ version: 1, incarnation: 1, policies: [aRegionPolicy()] }, null)
  answer = async () => ({ atUs: 1, decisions: [ADMIT] })
  ;({ app, url } = await listeningApp({ index: () => index, answer: () => answer() }))
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

describe('a connection with plain checks', () => {
  it('has the same header fields on an answer of either way, those of the connection too', async () => {
    const plain = await onOneConnection(url, [request(VALID)], 1)
    // A charset makes it the framework's.
    const framework = request(VALID).replace('application/json', 'application/json; charset=utf-8')
    const other = await onOneConnection(url, [framework], 1)
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
    const said = await onOneConnection(url, [both.join('')], 2)
    expect(said.split('HTTP/1.1 200 OK')).toHaveLength(3)
    expect(said.indexOf('"first"')).toBeGreaterThan(0)
    expect(said.indexOf('"second"')).toBeGreaterThan(said.indexOf('"first"'))
  })

  it('takes one after another, plain ones and others, and bodies that arrive in parts', async () => {
    const plain = request({ ...VALID, requestId: 'plain' })
    const invalid = request({ ...VALID, cost: -1 })
    const query = request({ ...VALID, requestId: 'query' }).replace('/check', '/check?deny=429')
    const parts = [plain.slice(0, -30), plain.slice(-30, -10), plain.slice(-10)]
    const said = await onOneConnection(url, [...parts, invalid, query, ...parts], 4)
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
    const said = await onOneConnection(url, [text], 2)
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
