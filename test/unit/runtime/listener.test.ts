import { connect } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listenerOptions } from '../../../shared/runtime/listener.ts'

const ARRIVAL_MS = 300

let app: FastifyInstance
let port: number

beforeEach(async () => {
  app = Fastify(listenerOptions({ tls: null, arrivalMs: ARRIVAL_MS }))
  app.post('/', (req) => req.body)
  port = Number(new URL(await app.listen({ port: 0 })).port)
})
afterEach(() => app.close())

/** What is said on a connection that sends `text` until the server ends it. */
function heardOut(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    let said = ''
    socket.setEncoding('latin1')
    socket.once('error', reject)
    socket.on('data', (part) => {
      said += part
    })
    socket.once('close', () => resolve(said))
  })
}

const HEAD = 'POST / HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n'
const WHOLE = `${HEAD}content-length: 2\r\n\r\n{}`

describe('a listener', () => {
  it('ends a connection whose request does not arrive in time, wherever it stopped', async () => {
    const beganMs = performance.now()
    const all = await Promise.all(
      [
        '',
        'POST / HT',
        HEAD,
        `${HEAD}content-length: 20\r\n\r\n{`,
        `${HEAD}transfer-encoding: chunked\r\n\r\n1\r\n{`,
      ].map(heardOut),
    )
    // One look of Node.js a second, on a busy machine.
    expect(performance.now() - beganMs).toBeLessThan(10_000)
    for (const said of all) {
      expect(said).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/)
      expect(said).toMatch(/\r\nconnection: close\r\n/)
      expect(said).toContain('"errors":[{"field":"request","message":"did not arrive in time"')
    }
  })

  it('ends it also where an answer has gone before', async () => {
    const said = await heardOut(`${WHOLE}${HEAD}content-length: 20\r\n\r\n{`)
    expect([...said.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual([
      '200',
      '408',
    ])
  })
})
