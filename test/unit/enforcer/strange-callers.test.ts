import { connect, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { buildPolicyIndex } from '../../../shared/core/policy-index.ts'
import type { CheckAnswer } from '../../../shared/core/ports.ts'
import { aRegionPolicy } from '../../support/region-policy.ts'
import { ADMIT, listeningApp, onOneConnection, request, VALID } from './listening-app.ts'

const DECIDED: CheckAnswer = { atUs: 1, decisions: [ADMIT] }
const named = (requestId: string, fields = ''): string => request({ ...VALID, requestId }, fields)

let app: FastifyInstance
let url: string
let asked: number
let answer: () => Promise<CheckAnswer>

beforeEach(async () => {
  const policies = [aRegionPolicy()]
  const index = buildPolicyIndex({ version: 1, incarnation: 1, policies }, null)
  asked = 0
  answer = async () => DECIDED
  const decide = (): Promise<CheckAnswer> => {
    asked++
    return answer()
  }
  ;({ app, url } = await listeningApp({ index: () => index, answer: decide }))
})
afterEach(() => app.close())

/** Lets checks wait until `decide` is called. */
function hold(): { readonly decide: () => void } {
  let decide = (): void => {}
  const decided = new Promise<void>((resolve) => {
    decide = resolve
  })
  answer = () => decided.then(() => DECIDED)
  return { decide }
}

interface Said {
  readonly status: number
  readonly fields: string
  readonly body: string
}

/** The answers in `text`, cut where each says that it ends; throws where something else is between them. */
function answersOf(text: string): Said[] {
  const all: Said[] = []
  let rest = text
  while (rest !== '') {
    const found = /^HTTP\/1\.1 (\d{3}) [^\r]*\r\n((?:[^\r]+\r\n)*)\r\n/.exec(rest)
    if (found === null) throw new Error(`no answer begins with ${rest.slice(0, 60)}`)
    const [head, status = '', fields = ''] = found
    const length = Number(/^content-length: (\d+)\r$/im.exec(fields)?.[1] ?? 0)
    all.push({
      status: Number(status),
      fields,
      body: rest.slice(head.length, head.length + length),
    })
    rest = rest.slice(head.length + length)
  }
  return all
}

/** Sends all at once, and hears the connection out. */
async function heardOut(text: string): Promise<readonly Said[]> {
  return answersOf(await onOneConnection(url, [text], Number.POSITIVE_INFINITY))
}

const idOf = ({ body }: Said): unknown => JSON.parse(body).requestId

describe('a request whose end could be taken for another place', () => {
  const plain = named('mine')
  const inChunks = 'transfer-encoding: chunked\r\n'

  it.each([
    ['a length and chunks', named('mine', inChunks)],
    ['two lengths', named('mine', 'content-length: 3\r\n')],
    ['a list of lengths', plain.replace(/content-length: (\d+)/, 'content-length: $1, $1')],
    ['a length with a sign', plain.replace('content-length: ', 'content-length: +')],
    ['a space before the colon', plain.replace('content-length:', 'content-length :')],
    ['a folded field', plain.replace('content-length: ', 'content-length:\r\n ')],
    ['lines without a carriage return', plain.replaceAll('\r\n', '\n')],
    ['another coding last', plain.replace(/content-length: \d+/, 'transfer-encoding: identity')],
    ['a chunk that is no number', plain.replace(/content-length: \d+/, inChunks.trim())],
  ])('is refused, and nothing after it is read: %s', async (_name, text) => {
    const said = await heardOut(text + named('smuggled'))
    expect(said.map(({ status }) => status)).toEqual([400])
    expect(said[0]?.fields).toMatch(/^content-type: application\/problem\+json/m)
    expect(JSON.parse(said[0]?.body ?? '')).toMatchObject({
      status: 400,
      code: 'QUOTA_INVALID_INPUT',
      errors: [{ field: 'request', fix: expect.stringContaining('content-length') }],
    })
    expect(asked).toBe(0)
  })
})

describe('what follows a check on its connection', () => {
  it.each([
    ['is no HTTP', 'what?\r\n\r\n', 400],
    ['has too large a head', `GET /livez HTTP/1.1\r\nhost: h\r\nx: ${'x'.repeat(20_000)}\r\n`, 431],
    ['is cut in its body', `${named('b', 'transfer-encoding: chunked\r\n')}`, 400],
  ])(
    'is refused after the answer that is due, never in its place, where it %s',
    async (_name, after, status) => {
      const { decide } = hold()
      const refused = new Promise<void>((resolve) =>
        app.server.once('clientError', () => resolve()),
      )
      const heard = heardOut(named('first') + named('second') + after)
      await refused
      decide()
      const said = await heard
      expect(said.map((one) => one.status)).toEqual([200, 200, status])
      expect(said.slice(0, 2).map(idOf)).toEqual(['first', 'second'])
    },
  )

  it('is not read where the check said that it is the last one, and the answer comes', async () => {
    const { decide } = hold()
    const refused = new Promise<void>((resolve) => app.server.once('clientError', () => resolve()))
    const heard = heardOut(named('first', 'connection: close\r\n') + named('second'))
    await refused
    decide()
    expect((await heard).map(idOf)).toEqual(['first'])
    expect(asked).toBe(1)
  })

  it('does not hold the answer up when the caller goes', async () => {
    const { decide } = hold()
    const refused = new Promise<void>((resolve) => app.server.once('clientError', () => resolve()))
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`${named('first')}what?\r\n\r\n`)
    await refused
    socket.destroy()
    decide()
    expect((await heardOut(named('other', 'connection: close\r\n'))).map(idOf)).toEqual(['other'])
  })
})

describe('an unusual request', () => {
  const chunked = (id: string): string => {
    const text = JSON.stringify({ ...VALID, requestId: id })
    const head = named(id).split('content-length')[0]
    return `${head}transfer-encoding: chunked\r\n\r\n${text.length.toString(16)}\r\n${text}\r\n0\r\nx-late: 1\r\n\r\n`
  }
  const last = named('last', 'connection: close\r\n')

  it.each([
    ['in chunks, with a trailer', chunked('odd')],
    ['that asks for another protocol', named('odd', 'connection: upgrade\r\nupgrade: h2c\r\n')],
    [
      'in HTTP/1.0 that wants to stay',
      named('odd', 'connection: keep-alive\r\n').replace('1.1', '1.0'),
    ],
  ])('is answered once, and the next one gets its own answer: %s', async (_name, text) => {
    // What comes in one piece behind a request for another protocol is lost in Node.js, and might be of that protocol.
    const said = await onOneConnection(url, [text, last], Number.POSITIVE_INFINITY)
    expect(answersOf(said).map(idOf)).toEqual(['odd', 'last'])
    expect(asked).toBe(2)
  })

  it('is told to go on before its answer where it asks for that, in the order of requests', async () => {
    const { decide } = hold()
    const expecting = named('odd', 'expect: 100-continue\r\n')
    const heard = heardOut(named('first') + expecting + last)
    await expect.poll(() => asked).toBe(3)
    decide()
    const said = await heard
    expect(said.map(({ status }) => status)).toEqual([200, 100, 200, 200])
    expect(said.filter(({ status }) => status === 200).map(idOf)).toEqual(['first', 'odd', 'last'])
  })

  it('has no body in its answer where it asks for the head alone', async () => {
    const text = await onOneConnection(
      url,
      [`HEAD /livez HTTP/1.1\r\nhost: h\r\n\r\n${last}`],
      Number.POSITIVE_INFINITY,
    )
    const [head = '', rest = ''] = text.split(/\r\n\r\n(?=HTTP)/)
    expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(answersOf(rest).map(idOf)).toEqual(['last'])
  })

  it.each(['constructor', '__proto__'])(
    'cannot take what is no header field for one: %s',
    async (name) => {
      const path = `/v1/authorize?domain=api&descriptor=tenant:header:${name}`
      expect((await fetch(url + path)).status).toBe(403)
    },
  )
})

describe('a request that does not arrive', () => {
  it('has five seconds, its head and its body', () => {
    expect(app.server).toMatchObject({ headersTimeout: 5_000, requestTimeout: 5_000 })
  })
})

describe('a caller that does not read', () => {
  it('is not read any further either, and misses no answer once it does', async () => {
    const CHECKS = 20_000
    const socket: Socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.pause()
    for (let at = 0; at < CHECKS; at++) socket.write(named(`n${at}`))
    let before = -1
    await expect
      .poll(
        () => {
          const isStill = before === asked && asked > 0
          before = asked
          return isStill
        },
        { interval: 150, timeout: 20_000 },
      )
      .toBe(true)
    expect(asked).toBeLessThan(CHECKS)
    let text = ''
    socket.setEncoding('latin1')
    await new Promise<void>((resolve) => {
      socket.on('data', (part) => {
        text += part
        if (text.endsWith(`"n${CHECKS - 1}","admittedAtUs":1}`)) resolve()
      })
      socket.resume()
    })
    socket.destroy()
    const ids = [...text.matchAll(/"requestId":"n(\d+)"/g)].map(([, id]) => Number(id))
    expect(ids).toHaveLength(CHECKS)
    expect(ids.every((id, at) => id === at)).toBe(true)
  })
})

describe('a server that closes', () => {
  it('says what is wrong with a check that was on its way, and that the connection ends', async () => {
    const { decide } = hold()
    const begun = expect.poll(() => asked).toBe(1)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.setEncoding('latin1')
    let text = ''
    socket.on('data', (part) => {
      text += part
    })
    const ended = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    const invalid = request({ ...VALID, cost: -1 })
    socket.write(named('first') + invalid.slice(0, -5))
    await begun
    const closed = app.close()
    socket.write(invalid.slice(-5))
    decide()
    await ended
    await closed
    const [first, second] = answersOf(text)
    expect(first?.status).toBe(200)
    expect(second).toMatchObject({
      status: 400,
      fields: expect.stringMatching(/^connection: close\r$/im),
    })
  })
})
