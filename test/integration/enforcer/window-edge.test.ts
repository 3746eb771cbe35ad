import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPolicy, type Reply, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** All who were denied in a window were told the same instant, and come back in it. */

const ENFORCERS = 5
const CALLERS = 500
const CAPACITY = 100
const WINDOW_MS = 3_000

let region: TestRegion
let redis: Redis
let enforcers: readonly TestEnforcer[]

beforeAll(async () => {
  const limit = { algorithm: 'fixed_window', capacity: CAPACITY, windowMs: WINDOW_MS } as const
  region = await startRegion([
    aPolicy({ name: 'herd', match: [{ key: 'herd' }], limits: [{ ...limit, leases: 'off' }] }),
    aPolicy({
      name: 'leased',
      match: [{ key: 'leased' }],
      limits: [{ ...limit, windowMs: 3_600_000 }],
    }),
  ])
  redis = new Redis(region.redis.url)
  const options = { leases: true, keepsDenials: true }
  enforcers = await Promise.all(
    Array.from({ length: ENFORCERS }, () => region.startEnforcer(options)),
  )
})
afterAll(async () => {
  redis.disconnect()
  await region.stop()
})

async function calls(): Promise<number> {
  const stats = await redis.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

/** One check of each caller, as many to each enforcer. */
const askAll = (key: string, waitMs: (caller: number) => number): Promise<Reply[]> =>
  Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      const enforcer = enforcers[caller % ENFORCERS]
      if (enforcer === undefined) throw new Error('an enforcer')
      // A timer may be a millisecond early.
      await delay(waitMs(caller) + 1)
      return await enforcer.check([{ [key]: 'shared' }])
    }),
  )

/** Late in a window, so that nobody waits long, with time for all to be asked in it. */
const lateInWindow = () => delay(WINDOW_MS - ((Date.now() + WINDOW_MS / 2) % WINDOW_MS))

const admittedOf = (replies: readonly Reply[]): number =>
  replies.filter(({ answer }) => answer.allowed).length

it('admits exactly the capacity of those who come back at the edge, denies the rest cleanly, and asks Redis little (B071)', async () => {
  await lateInWindow()
  const first = await askAll('herd', () => 0)
  expect(admittedOf(first)).toBe(CAPACITY)
  const waits = first.map(({ answer }) => answer.decisions[0]?.retryAfterMs ?? 0)
  // Those who were admitted come back with the others.
  const toldMs = Math.min(...waits.filter((ms) => ms > 0))
  const before = await calls()
  const again = await askAll('herd', (caller) => waits[caller] || toldMs)
  expect(admittedOf(again)).toBe(CAPACITY)
  for (const { status, answer } of again) {
    expect([status, answer.degraded]).toEqual([200, false])
    expect(answer.decisions[0]?.reason ?? 'limit').toBe('limit')
  }
  // Checks of one turn leave together, and denials that stay true are kept.
  expect((await calls()) - before).toBeLessThan(CALLERS / 2)
  for (const enforcer of enforcers) {
    expect(await enforcer.series('quotaplane_store_guard_open')).toBe(0)
  }
})

it('of a leased counter admits no more, and what blocks hold is there for who asks a moment later (B071)', async () => {
  const first = admittedOf(await askAll('leased', () => 0))
  expect(first).toBeLessThanOrEqual(CAPACITY)
  let admitted = first
  await expect
    .poll(
      async () => {
        const { answer } = (await enforcers[0]?.check([{ leased: 'shared' }])) ?? {}
        admitted += Number(answer?.allowed)
        return admitted
      },
      { interval: 1, timeout: 3_000 },
    )
    .toBe(CAPACITY)
})
