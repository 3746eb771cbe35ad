/**
 * Envoy's rate limit service of one enforcer process over a real Redis, beside a grpc-js server that decodes the
 * same request and encodes the same response.
 *
 * This file is also that server: started with the argument `echo` it serves until it is stopped.
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type handleUnaryCall, Server, ServerCredentials } from '@grpc/grpc-js'
import { loadRlsService } from '../../services/enforcer/grpc/definitions.ts'
import type { RlsRequest, RlsResponse } from '../../shared/protocol/rls-messages.ts'
import { startServer } from '../support/server-process.ts'
import { callsPerSecondOver, type Http2Load, latencyMsP99Over } from './http2-load.ts'
import type { Prepared } from './measure.ts'
import { bucketPolicy, enforcerEnv, startBenchRegion } from './region.ts'

const SELF = fileURLToPath(import.meta.url)
const ROUND_MS = 2_000
/** Three processes on the processors of a small machine: one round differs from another by a tenth and more. */
const ROUNDS = 11
const TENANTS = 1_000
const CONNECTIONS = 8
const STREAMS = 16
const CAPACITY_NEVER_MET = 1_000_000
const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

if (process.argv[2] === 'echo' && process.argv[1] === SELF) await serveEcho()

/** What a limit's answer looks like, so that both sides encode as much. */
const RESPONSE: RlsResponse = {
  overall_code: 'OK',
  statuses: [
    {
      code: 'OK',
      current_limit: { requests_per_unit: 1_000_000, unit: 'SECOND', name: 'per-tenant' },
      limit_remaining: 999_999,
      duration_until_reset: { seconds: 1, nanos: 0 },
    },
  ],
  response_headers_to_add: [
    { key: 'ratelimit-policy', value: '"per-tenant";q=1000000;w=1' },
    { key: 'ratelimit', value: '"per-tenant";r=999999;t=1' },
  ],
}

async function serveEcho(): Promise<void> {
  const server = new Server()
  const echo: handleUnaryCall<RlsRequest, RlsResponse> = (_call, callback) =>
    callback(null, RESPONSE)
  server.addService(loadRlsService(), { ShouldRateLimit: echo })
  server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (err, port) => {
    if (err !== null) throw err
    process.stdout.write(`"grpcPort":${port}\n`)
  })
}

export async function grpcCheck(): Promise<Prepared> {
  const { enforcer, echo, stop } = await startBoth()
  return {
    contest: {
      name: 'grpc-check',
      unit: 'requests/s',
      peerName: 'grpc-js echo of the same messages',
      rounds: ROUNDS,
      ours: () => callsPerSecondOver(enforcer),
      peer: () => callsPerSecondOver(echo),
    },
    stop,
  }
}

/** Each at half of what it answers at most, which is measured first. Envoy waits 20 ms unless it is told otherwise. */
export async function grpcCheckP99(): Promise<Prepared> {
  const { enforcer, echo, stop } = await startBoth()
  const halves = {
    ours: (await callsPerSecondOver(enforcer)) / 2,
    peer: (await callsPerSecondOver(echo)) / 2,
  }
  return {
    contest: {
      name: 'grpc-check-p99',
      unit: 'ms',
      peerName: 'grpc-js echo of the same messages, at half of its peak too',
      ours: () => latencyMsP99Over(enforcer, halves.ours),
      peer: () => latencyMsP99Over(echo, halves.peer),
    },
    stop,
  }
}

/** An enforcer and an echo, each a process of its own; the load for each. */
async function startBoth(): Promise<{
  readonly enforcer: Http2Load
  readonly echo: Http2Load
  stop(): Promise<void>
}> {
  const region = await startBenchRegion(bucketPolicy(CAPACITY_NEVER_MET, 1_000))
  const env = enforcerEnv(region)
  const main = join(dirname(SELF), '../../services/enforcer/main.js')
  const enforcer = await startServer(process.execPath, [main], 'policies applied', { env })
  const echo = await startServer(process.execPath, [SELF, 'echo'], '"grpcPort"')
  const { requestSerialize } = method()
  const messages = Array.from({ length: TENANTS }, (_, id) =>
    requestSerialize({
      domain: 'api',
      descriptors: [{ entries: [{ key: 'tenant', value: `tenant-${id}` }] }],
    }),
  )
  const loadOf = (log: string): Http2Load => ({
    port: Number(/"grpcPort":(\d+)/.exec(log)?.[1]),
    path: PATH,
    messages,
    connections: CONNECTIONS,
    streams: STREAMS,
    roundMs: ROUND_MS,
  })
  return {
    enforcer: loadOf(enforcer.log()),
    echo: loadOf(echo.log()),
    async stop() {
      await Promise.all([enforcer.stop(), echo.stop()])
      await region.stop()
    },
  }
}

function method() {
  const { ShouldRateLimit } = loadRlsService()
  if (ShouldRateLimit === undefined) throw new Error('the service has its method')
  return ShouldRateLimit
}
