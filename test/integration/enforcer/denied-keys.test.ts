import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion, withLimit } from './region.ts'

/** What callers and Redis see of an enforcer that keeps denials. */

const HOUR_MS = 3_600_000
const policy = aPolicy({
  limits: [{ algorithm: 'fixed_window', capacity: 5, windowMs: HOUR_MS }],
})

let region: TestRegion
let redis: Redis
let enforcer: TestEnforcer

beforeAll(async () => {
  region = await startRegion([policy])
  redis = new Redis(region.redis.url)
})
afterAll(async () => {
  redis.disconnect()
  await region.stop()
})
beforeEach(async () => {
  await region.write([policy])
  enforcer = await region.startEnforcer({ keepsDenials: true })
  await expect.poll(() => enforcer.series('quotaplane_news_heard')).toBe(1)
})

async function scriptCalls(): Promise<number> {
  const stats = await redis.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

/** Spends the window of `tenant` and asks until a denial is kept. */
async function exhaust(tenant: string): Promise<void> {
  for (let spent = 0; spent < 5; spent++) {
    expect((await enforcer.check(tenant)).answer.allowed).toBe(true)
  }
  await expect
    .poll(async () => {
      expect((await enforcer.check(tenant)).answer.allowed).toBe(false)
      return await enforcer.series('quotaplane_denials_from_memory_total')
    })
    .toBeGreaterThan(0)
}

describe('a key that is denied', () => {
  it('is denied again without asking Redis, with the same words, and counted as denied', async () => {
    await exhaust('acme')
    const other = await region.startEnforcer()
    const [kept, asked] = [
      await enforcer.check('acme', { query: '?deny=429' }),
      await other.check('acme', { query: '?deny=429' }),
    ]
    expect(kept.status).toBe(429)
    expect(kept.status).toBe(asked.status)
    const decisions = [kept, asked].map(({ answer }) => answer.decisions[0])
    expect({ ...decisions[0], resetMs: 0, retryAfterMs: 0 }).toEqual({
      ...decisions[1],
      resetMs: 0,
      retryAfterMs: 0,
    })
    const apartMs = Number(decisions[0]?.retryAfterMs) - Number(decisions[1]?.retryAfterMs)
    expect(apartMs).toBeGreaterThanOrEqual(0)
    const before = await scriptCalls()
    const replies = await Promise.all(Array.from({ length: 500 }, () => enforcer.check('acme')))
    expect(replies.every(({ answer }) => !answer.allowed && !answer.degraded)).toBe(true)
    // One call a second asks again, ten a second count what was denied.
    expect((await scriptCalls()) - before).toBeLessThan(100)
  })

  it('is admitted at once after a refund, by whichever enforcer', async () => {
    await exhaust('globex')
    const other = await region.startEnforcer()
    const reply = await other.app.inject({
      method: 'POST',
      url: '/v1/refund',
      payload: {
        requestId: 'one',
        admittedAtUs: Date.now() * 1_000 - 1,
        domain: 'api',
        descriptors: [{ entries: [{ key: 'tenant', value: 'globex' }] }],
      },
    })
    expect(reply.statusCode).toBe(200)
    await expect
      .poll(async () => (await enforcer.check('globex')).answer.allowed, {
        interval: 5,
        timeout: 10_000,
      })
      .toBe(true)
    expect((await enforcer.check('globex')).answer.allowed).toBe(false)
  })

  it('is admitted at once after a raise of its limit', async () => {
    await exhaust('initech')
    await region.write([withLimit(policy, { capacity: 6 })])
    await expect
      .poll(async () => (await enforcer.check('initech')).answer.allowed, {
        interval: 5,
        timeout: 10_000,
      })
      .toBe(true)
    expect((await enforcer.check('initech')).answer.allowed).toBe(false)
  })

  it('is asked for in Redis each time while its news are not heard', async () => {
    await exhaust('hooli')
    await redis.call('CLIENT', 'KILL', 'TYPE', 'PUBSUB')
    await expect.poll(() => enforcer.series('quotaplane_denied_keys_kept')).toBe(0)
    await expect.poll(() => enforcer.series('quotaplane_news_heard'), { timeout: 10_000 }).toBe(1)
    await exhaust('hooli two')
  })
})
