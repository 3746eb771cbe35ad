import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createRedis } from '../../../shared/redis/client.ts'
import { aPolicy, type Reply, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const HOUR_MS = 3_600_000

/** What most checks take while the guard keeps them from waiting: far under the deadline of the store. */
const FAST_MS = 15

const limits = [{ algorithm: 'fixed_window', capacity: 100, windowMs: HOUR_MS }] as const
const allowing = aPolicy({ domain: 'allowing', onStoreFailure: 'allow', limits })
const denying = aPolicy({ domain: 'denying', onStoreFailure: 'deny', limits })
const holding = aPolicy({
  domain: 'holding',
  onStoreFailure: 'local',
  limits: [{ algorithm: 'fixed_window', capacity: 100, windowMs: HOUR_MS }],
})
const policies = [allowing, denying, holding]

let region: TestRegion
let enforcer: TestEnforcer

beforeEach(async () => {
  region = await startRegion(policies)
  enforcer = await region.startEnforcer({ deadlineMs: 150 })
})
afterEach(() => region.stop())

const ask = (domain: string, query = ''): Promise<Reply> =>
  enforcer.check('acme', { domain, query })

async function expectDegraded(): Promise<void> {
  const [allowed, denied] = await Promise.all([ask('allowing'), ask('denying', '?deny=429')])
  expect(allowed).toMatchObject({ status: 200, answer: { allowed: true, degraded: true } })
  expect(denied).toMatchObject({ status: 503, retryAfter: '1' })
  expect(denied.answer).toMatchObject({ allowed: false, degraded: true })
  for (const { answer } of [allowed, denied]) {
    expect(answer.decisions[0]).toMatchObject({
      reason: 'store_unavailable',
      limit: 100,
      remaining: null,
      resetMs: null,
    })
  }
}

/** Waits until checks are decided by Redis again, with nobody's help. */
async function recovered(): Promise<void> {
  await expect
    .poll(async () => (await ask('allowing')).answer.degraded, { interval: 20, timeout: 10_000 })
    .toBe(false)
}

describe('while Redis does not answer', () => {
  it('each policy decides as its operator chose, and says so (B094)', async () => {
    region.redis.pause()
    for (let turn = 0; turn < 4; turn++) await expectDegraded()
    region.redis.resume()
    await recovered()
    const degraded = 'quotaplane_degraded_decisions_total'
    const timedOut = await enforcer.series(degraded, 'reason="store_unavailable"')
    expect(timedOut).toBeGreaterThan(0)
    expect(
      await enforcer.series('quotaplane_store_errors_total', 'STORE_UNAVAILABLE'),
    ).toBeGreaterThan(0)
  })

  it('checks stop waiting for it after a few time-outs, and one at a time tries it (B094, B104)', async () => {
    const errors = () => enforcer.series('quotaplane_store_errors_total', 'STORE_UNAVAILABLE')
    region.redis.pause()
    // Checks that fail at once after a time-out are part of its failure, as many as come within its two milliseconds.
    const isOpen = async () => {
      await ask('allowing')
      return (await enforcer.series('quotaplane_store_guard_open')) === 1
    }
    await expect.poll(isOpen, { interval: 1, timeout: 10_000 }).toBe(true)
    const before = await errors()
    const tookMs: number[] = []
    const startedMs = performance.now()
    for (let turn = 0; turn < 300; turn++) {
      const askedMs = performance.now()
      expect((await ask('allowing')).answer.degraded).toBe(true)
      tookMs.push(performance.now() - askedMs)
    }
    // One check every 250 ms, and five before, tries the store and waits for the deadline; all others answer at once.
    const triesMax = 5 + (performance.now() - startedMs) / 250
    expect((await errors()) - before).toBeLessThanOrEqual(triesMax)
    expect(tookMs.sort((a, b) => a - b)[150]).toBeLessThan(FAST_MS)
    expect(await enforcer.series('quotaplane_store_guard_open')).toBe(1)
    expect((await enforcer.app.inject('/readyz?verbose')).json()).toMatchObject({
      status: 'ready',
      waitingFor: ['store'],
      checks: expect.arrayContaining([
        expect.objectContaining({ name: 'store', ready: false, detail: expect.any(String) }),
      ]),
    })
    region.redis.resume()
    await recovered()
    expect(await enforcer.series('quotaplane_store_guard_open')).toBe(0)
  })

  it("B107: a policy that says so is held in memory, by this enforcer's part of the share", async () => {
    await region.startEnforcer()
    await expect
      .poll(() => enforcer.series('quotaplane_live_enforcers'), { timeout: 10_000 })
      .toBe(2)
    region.redis.pause()
    let admitted = 0
    for (let turn = 0; turn < 80; turn++) {
      const { answer } = await ask('holding')
      expect(answer.degraded).toBe(true)
      if (answer.allowed) admitted += 1
    }
    expect(admitted).toBe(50)
    const { answer } = await ask('holding')
    expect(answer.decisions[0]).toMatchObject({ reason: 'limit', remaining: 0 })
    region.redis.resume()
    await recovered()
  })

  it('a check that was given up is never sent again, and counts at most once (B095)', async () => {
    region.redis.pause()
    const givenUp = await Promise.all(Array.from({ length: 20 }, () => ask('allowing')))
    expect(givenUp.every(({ answer }) => answer.degraded)).toBe(true)
    region.redis.resume()
    await recovered()
    const { answer } = await enforcer.check('acme', { domain: 'allowing', cost: 0 })
    expect(answer.decisions[0]?.remaining).toBeGreaterThanOrEqual(100 - 20 - 10)
  })

  it('the last known policies stay in force and the enforcer stays ready', async () => {
    region.redis.pause()
    await expect
      .poll(() => enforcer.series('quotaplane_policy_age_seconds'), { timeout: 5_000 })
      .toBeGreaterThan(0.5)
    await expectDegraded()
    expect((await enforcer.app.inject('/readyz')).statusCode).toBe(200)
    region.redis.resume()
  })
})

describe('a Redis whose memory is full', () => {
  it('refuses to write: policies decide, no script leaves half of its work, and all goes on after it (B086)', async () => {
    const redis = new Redis(region.redis.url)
    await ask('allowing')
    const keys = async () => {
      const names = (await redis.keys('[chu]:*')).sort()
      return await Promise.all(names.map(async (key) => [key, await redis.dump(key)]))
    }
    const before = await keys()
    await redis.config('SET', 'maxmemory', 1)
    for (const tenant of ['acme', 'globex']) {
      const reply = await enforcer.check(tenant, { domain: 'denying', query: '?deny=429' })
      expect(reply.status).toBe(503)
      expect((await enforcer.check(tenant, { domain: 'allowing' })).answer).toMatchObject({
        allowed: true,
        degraded: true,
      })
    }
    expect(await keys()).toEqual(before)
    expect(await enforcer.series('quotaplane_store_errors_total', 'OUT_OF_MEMORY')).toBeGreaterThan(
      0,
    )
    await redis.config('SET', 'maxmemory', 0)
    await recovered()
    redis.disconnect()
  })

  it('is told of before that, where it would throw keys away instead (B085)', async () => {
    const redis = new Redis(region.redis.url)
    const evictions = async () => {
      const { checks } = (await enforcer.app.inject('/readyz?verbose')).json()
      return checks.find(({ name }: { name: string }) => name === 'eviction')
    }
    enforcer.watch()
    await expect.poll(evictions).toMatchObject({ ready: true })
    await redis.config('SET', 'maxmemory-policy', 'volatile-lru')
    enforcer.watch()
    await expect
      .poll(async () => (await evictions()).detail, { timeout: 5_000 })
      .toContain('volatile-lru')
    expect(await enforcer.series('quotaplane_store_evicts')).toBe(1)
    expect(enforcer.lines.filter(({ msg }) => msg.includes('noeviction'))).toHaveLength(1)
    redis.disconnect()
  })
})

describe('when Redis dies', () => {
  it('policies decide, nothing crashes, and it recovers when the daemon has served the new one', async () => {
    await ask('allowing')
    await region.redis.kill()
    await expectDegraded()
    await region.redis.restart()
    await expectDegraded()
    await region.boot(policies, 'empty')
    await recovered()
    // A window that began before the boot counts as full: nobody can tell what it had admitted.
    expect((await ask('denying')).answer).toMatchObject({
      allowed: false,
      degraded: false,
      decisions: [{ reason: 'limit' }],
    })
  }, 20_000)

  it('says so in few lines, however many checks it answers (B101)', async () => {
    await region.redis.kill()
    const before = enforcer.lines.length
    for (let batch = 0; batch < 20; batch++) {
      await Promise.all(Array.from({ length: 100 }, () => ask('allowing')))
    }
    expect(enforcer.lines.length - before).toBeLessThanOrEqual(5)
  })
})

describe('when the scripts are gone from Redis', () => {
  it('policies decide until the daemon serves again; the enforcer loads none itself', async () => {
    await ask('allowing')
    const redis = createRedis({ url: region.redis.url, name: 'test', onError: () => {} })
    await new Promise((resolve) => redis.once('ready', resolve))
    await redis.script('FLUSH')
    for (let turn = 0; turn < 5; turn++) await expectDegraded()
    redis.disconnect()
    await region.reopen()
    await recovered()
  })
})

describe('an enforcer that starts while Redis holds no policies', () => {
  it('is not ready, decides nothing, and gets ready by itself', async () => {
    await region.redis.restart()
    const starting = region.startEnforcer()
    await region.boot(policies)
    const fresh = await starting
    expect((await fresh.app.inject('/readyz')).statusCode).toBe(200)
    expect((await fresh.check('acme', { domain: 'denying' })).answer.degraded).toBe(false)
  })
})
