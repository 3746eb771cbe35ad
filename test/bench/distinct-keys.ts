/**
 * Decisions of one process over a Redis for many different callers: the enforcer's whole path without HTTP (routes,
 * guard, counts of metrics, leases, denials in memory, batches), beside rate-limiter-flexible on the same server.
 *
 * What is asked is made for each call, as a parser makes it, and on the other side the name of the key: 100,000 requests
 * that are kept would be read from all over the memory, which took a third of our time and is no part of a decision.
 */
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { decide } from '../../services/enforcer/decide.ts'
import type { CheckRequest } from '../../shared/protocol/check-request.ts'
import { callsPerSecond, type Prepared } from './measure.ts'
import { PER_TENANT, startBenchRegionOver, type Transport } from './region.ts'

const KEYS = 100_000
const CONCURRENCY = 512
const CALLS = 300_000
const PEER_CALLS = 100_000

/** Prime to the number of keys: neighbours in time are far apart in memory. */
const STRIDE = 7_919

/** Over TCP, as services reach a region's Redis. */
export function distinctKeys(): Promise<Prepared> {
  return contestOver('distinct-keys', 'tcp')
}

/** Over a Unix socket, where a call costs both sides less: it saves more who makes more of them, which is the peer. */
export function distinctKeysSocket(): Promise<Prepared> {
  return contestOver('distinct-keys-socket', 'socket')
}

async function contestOver(name: string, transport: Transport): Promise<Prepared> {
  const region = await startBenchRegionOver(transport, [PER_TENANT])
  const peer = new RateLimiterRedis({ storeClient: region.redis, points: 100, duration: 60 })
  const ours = (calls: number): Promise<number> =>
    perSecond(calls, (index) => decide(region.context, requestOf(`tenant-${index}`)))
  // Below its limit a promise is kept, above it is broken: both are answers.
  const theirs = (calls: number): Promise<number> =>
    perSecond(calls, (index) => peer.consume(`tenant-${index}`).catch(() => null))
  // Every key exists before anything is measured: births cost more, on both sides.
  await ours(KEYS)
  await theirs(KEYS)
  return {
    contest: {
      name,
      unit: 'checks/s',
      peerName: 'rate-limiter-flexible (Redis)',
      ours: () => ours(CALLS),
      peer: () => theirs(PEER_CALLS),
    },
    stop: () => region.stop(),
  }
}

function perSecond(calls: number, call: (index: number) => Promise<unknown>): Promise<number> {
  const concurrency = CONCURRENCY
  return callsPerSecond({ concurrency, calls, call: (index) => call((index * STRIDE) % KEYS) })
}

function requestOf(tenant: string): CheckRequest {
  const descriptors = [{ entries: [{ key: 'tenant', value: tenant }] }]
  return { domain: 'api', descriptors, cost: 1 }
}
