/**
 * Checks a second of one enforcer process over a real Redis, beside a bare Fastify that parses and answers JSON.
 *
 * Run with `npm run bench`, or after a build as `node dist/test/bench/check-http.js [connections]`.
 *
 * The ratio is the figure to watch; the absolute ones are the machine's. Rounds alternate, so that a busy host
 * slows both alike.
 */
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { connectRegionStore } from '../../shared/redis/region-store.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { startServer } from '../support/server-process.ts'

const HERE = dirname(fileURLToPath(import.meta.url))
const ROUNDS = 3
const ROUND_MS = 3_000
const TENANTS = 1_000
const connections = Number(process.argv[2] ?? 64)

if (process.argv[2] === 'echo') await serveEcho()
else await compare()

async function serveEcho(): Promise<void> {
  const app = Fastify()
  app.post('/v1/check', async (req) => req.body)
  process.stdout.write(`"url":"${await app.listen({ port: 0 })}"\n`)
}

async function compare(): Promise<void> {
  const redis = await startRedisServer()
  await boot(redis.url)
  const env = { PATH: process.env['PATH'], REGION: 'r', REDIS_URL: redis.url, ENFORCER_PORT: '0' }
  const main = join(HERE, '../../services/enforcer/main.js')
  const enforcer = await startServer(process.execPath, [main], 'policies applied', { env })
  const self = fileURLToPath(import.meta.url)
  const echo = await startServer(process.execPath, [self, 'echo'], '"url"')
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const checks = await requestsPerSecond(portIn(enforcer.log()))
      const echoes = await requestsPerSecond(portIn(echo.log()))
      const ratio = (checks / echoes).toFixed(2)
      process.stdout.write(
        `${connections} connections: ${Math.round(checks)} checks/s, ${Math.round(echoes)} echoes/s, ratio ${ratio}\n`,
      )
    }
  } finally {
    await Promise.all([enforcer.stop(), echo.stop()])
    await redis.stop()
  }
}

/** What the sync daemon does, with one policy whose limit the load never meets. */
async function boot(url: string): Promise<void> {
  const store = await connectRegionStore({ url, region: 'r', clock: systemClock })
  await store.open()
  await store.begin({ incarnation: 1, levels: 'full', recovering: false })
  const limit = {
    id: 1,
    name: 'per-second',
    algorithm: 'token_bucket',
    capacity: 1_000_000,
    windowMs: 1_000,
    burst: 1_000_000,
    usageEpoch: 0,
    home: POOL_UNITS,
  } as const
  const policy = {
    id: 1,
    domain: 'api',
    name: 'tenants',
    revision: 1,
    match: [{ key: 'tenant' }],
    onStoreFailure: 'allow',
    limits: [limit],
  } as const
  const change = { revision: 1, members: ['r'], plane: [], region: [policy], recovering: false }
  await store.writePolicies(change)
  await store.serve()
  await store.close()
}

/** One request under way on each connection; raw sockets, so that the load costs less than what it measures. */
async function requestsPerSecond(port: number): Promise<number> {
  const requests = Array.from({ length: TENANTS }, (_, id) => requestFor(`tenant-${id}`))
  let answered = 0
  let sent = 0
  const sockets = Array.from({ length: connections }, () => {
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
