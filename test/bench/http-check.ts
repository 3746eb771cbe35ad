/**
 * Checks a second of one enforcer process over a real Redis, beside a bare Fastify that parses and answers JSON.
 *
 * This file is also that Fastify: started with the argument `echo` it serves until it is stopped.
 */
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import { startServer } from '../support/server-process.ts'
import type { Contest } from './measure.ts'
import { bucketPolicy, startBenchRegion } from './region.ts'

const SELF = fileURLToPath(import.meta.url)
const ROUND_MS = 2_000
const TENANTS = 1_000
const CONNECTIONS = 64
const CAPACITY_NEVER_MET = 1_000_000

if (process.argv[2] === 'echo' && process.argv[1] === SELF) await serveEcho()

async function serveEcho(): Promise<void> {
  const app = Fastify()
  app.post('/v1/check', async (req) => req.body)
  process.stdout.write(`"url":"${await app.listen({ port: 0 })}"\n`)
}

export async function httpCheck(): Promise<{ contest: Contest; stop(): Promise<void> }> {
  const region = await startBenchRegion(bucketPolicy(CAPACITY_NEVER_MET, 1_000))
  const env = {
    PATH: process.env['PATH'],
    REGION: 'here',
    REDIS_URL: region.server.url,
    REDIS_DEADLINE_MS: '1000',
    ENFORCER_PORT: '0',
    ENFORCER_GRPC_PORT: '0',
  }
  const main = join(dirname(SELF), '../../services/enforcer/main.js')
  const enforcer = await startServer(process.execPath, [main], 'policies applied', { env })
  const echo = await startServer(process.execPath, [SELF, 'echo'], '"url"')
  return {
    contest: {
      name: 'http-check',
      unit: 'requests/s',
      peerName: 'Fastify echo of the same JSON',
      ours: () => requestsPerSecond(portIn(enforcer.log())),
      peer: () => requestsPerSecond(portIn(echo.log())),
    },
    async stop() {
      await Promise.all([enforcer.stop(), echo.stop()])
      await region.stop()
    },
  }
}

/** One request under way on each connection; raw sockets, so that the load costs less than what it measures. */
async function requestsPerSecond(port: number): Promise<number> {
  const requests = Array.from({ length: TENANTS }, (_, id) => requestFor(`tenant-${id}`))
  let answered = 0
  let sent = 0
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const socket = connect(port, '127.0.0.1')
    const send = (): void => void socket.write(requests[sent++ % TENANTS] ?? '')
    socket.on('connect', send)
    socket.on('data', () => {
      answered++
      send()
    })
    return socket
  })
  await pass(ROUND_MS / 3)
  const before = answered
  const startedMs = performance.now()
  await pass(ROUND_MS)
  const rate = ((answered - before) * 1_000) / (performance.now() - startedMs)
  for (const socket of sockets) socket.destroy()
  return rate
}

function requestFor(tenant: string): string {
  const descriptors = [{ entries: [{ key: 'tenant', value: tenant }] }]
  const body = JSON.stringify({ domain: 'api', descriptors, cost: 1 })
  return `POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

function portIn(log: string): number {
  return Number(/"url":"http:\/\/[^"]*:(\d+)"/.exec(log)?.[1])
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
