/**
 * One caller that asks all the time: an enforcer that leases beside rate-limiter-flexible's in-memory limiter, and how
 * often Redis is asked beside a call a check.
 *
 * Checks come in turns of the event loop, as sockets bring them: within a turn they are decided one after the other.
 */
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { decide, decideAtOnce } from '../../services/enforcer/decide.ts'
import type { Contest } from './measure.ts'
import { type BenchRegion, bucketPolicy, startBenchRegion } from './region.ts'

const ROUND_MS = 1_000
const CHECKS_PER_TURN = 512
/** A limit that neither side meets. */
const CAPACITY = 1_000_000_000

const REQUEST = {
  domain: 'api',
  descriptors: [{ entries: [{ key: 'tenant', value: 'hot' }] }],
  cost: 1,
}

interface Prepared {
  readonly contest: Contest
  stop(): Promise<void>
}

export async function hotKey(): Promise<Prepared> {
  const { region, stop } = await startLeasing()
  const peer = new RateLimiterMemory({ points: CAPACITY, duration: 1 })
  return {
    contest: {
      name: 'hot-key',
      unit: 'checks/s',
      peerName: 'rate-limiter-flexible (memory)',
      ours: () => perSecond((count) => ourTurn(region, count)),
      peer: () =>
        perSecond(async (count) => {
          for (let check = 0; check < count; check++) await peer.consume('hot')
        }),
    },
    stop,
  }
}

/** Redis calls for a thousand checks; 1,000 is what a call a check costs. */
export async function hotKeyRedisCalls(): Promise<Prepared> {
  const { region, stop } = await startLeasing()
  return {
    contest: {
      name: 'hot-key-redis-calls',
      unit: 'calls for 1,000 checks',
      peerName: 'a call a check',
      async ours() {
        const before = await scriptCalls(region)
        const checks = await checksIn(ROUND_MS, (count) => ourTurn(region, count))
        return (((await scriptCalls(region)) - before) * 1_000) / checks
      },
      peer: () => Promise.resolve(1_000),
    },
    stop,
  }
}

async function startLeasing(): Promise<{ region: BenchRegion; stop(): Promise<void> }> {
  const region = await startBenchRegion(bucketPolicy(CAPACITY, 1_000))
  // Hot from the first round on.
  await checksIn(ROUND_MS / 4, (count) => ourTurn(region, count))
  return { region, stop: () => region.stop() }
}

/** Out of leases where they cover the check, else by Redis. */
async function ourTurn({ context }: BenchRegion, count: number): Promise<void> {
  const asked: Promise<unknown>[] = []
  for (let check = 0; check < count; check++) {
    if (decideAtOnce(context, REQUEST) === null) asked.push(decide(context, REQUEST))
  }
  if (asked.length > 0) await Promise.all(asked)
}

async function perSecond(turn: (count: number) => Promise<void>): Promise<number> {
  const beganMs = performance.now()
  const checks = await checksIn(ROUND_MS, turn)
  return (checks * 1_000) / (performance.now() - beganMs)
}

async function checksIn(ms: number, turn: (count: number) => Promise<void>): Promise<number> {
  const untilMs = performance.now() + ms
  let checks = 0
  while (performance.now() < untilMs) {
    await turn(CHECKS_PER_TURN)
    checks += CHECKS_PER_TURN
    await new Promise((resolve) => setImmediate(resolve))
  }
  return checks
}

async function scriptCalls({ redis }: BenchRegion): Promise<number> {
  const stats = await redis.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}
