import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { DeniedKeys } from '../../../services/enforcer/denied-keys.ts'
import type { RegionLimitSpec } from '../../../shared/core/policy.ts'
import type { LimitDecision, NewsListener } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { createDenialLog } from '../../../shared/redis/denial-log.ts'
import { listenForNews } from '../../../shared/redis/region-news.ts'
import { randomOf } from '../../support/random.ts'
import { aLimit, NOON_US, RedisRegion, readyRedis, shareOf } from '../../support/redis-region.ts'

/** Denials that an enforcer keeps, beside what a real Redis would say at the same instant. */

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

const kinds: readonly Partial<RegionLimitSpec>[] = [
  { algorithm: 'token_bucket', capacity: 10, windowMs: 3_000, burst: 7 },
  { algorithm: 'leaky_bucket', capacity: 7, windowMs: 1_900, burst: 3 },
  { algorithm: 'fixed_window', capacity: 5, windowMs: 2_000 },
  { algorithm: 'sliding_window', capacity: 5, windowMs: 1_000 },
  { algorithm: 'sliding_log', capacity: 5, windowMs: 700 },
  { algorithm: 'sliding_counter', capacity: 5, windowMs: 900 },
]

function keeper(): DeniedKeys {
  const clock = { monotonicMs: () => region.time.us / 1_000, wallMs: () => region.time.us / 1_000 }
  const denied = new DeniedKeys({ log: createDenialLog({ redis: region.redis }), clock })
  denied.hear(true)
  return denied
}

/** Asks until Redis denies, and keeps that. */
async function keepDenial() {
  const denied = keeper()
  // The instant at which this keeper began to hear is past when the check is sent.
  await region.time.advanceMs(0.001)
  const check = region.target(1)
  const sentMs = denied.nowMs()
  let answer = await region.checks.check(check, region.version)
  while (answer.decisions[0]?.allowed) {
    answer = await region.checks.check(region.target(1), region.version)
  }
  denied.note(check, answer, { version: region.version, sentMs })
  return { denied, check }
}

/** Both deny; times differ by what rounding up to a millisecond makes, never to the early side. */
function expectSame(kept: LimitDecision | undefined, now: LimitDecision): void {
  expect(now).toMatchObject({ allowed: false, reason: 'limit', remaining: 0 })
  expect(kept).toMatchObject({ allowed: false, reason: 'limit', remaining: 0 })
  for (const field of ['resetMs', 'retryAfterMs'] as const) {
    const laterMs = Number(kept?.[field]) - Number(now[field])
    expect(laterMs).toBeGreaterThanOrEqual(0)
    expect(laterMs).toBeLessThanOrEqual(1)
  }
}

describe.each(kinds)('a denial of a $algorithm that is kept', (kind) => {
  it('says at each instant what Redis would say, and ends when it would not', async () => {
    const random = randomOf(kind.capacity ?? 0)
    await region.time.set(NOON_US)
    await region.begin([aLimit({ burst: kind.capacity ?? 0, ...kind })])
    let compared = 0
    for (let round = 0; round < 25; round++) {
      await region.time.advanceMs(random.below(900))
      const { denied, check } = await keepDenial()
      for (let look = 0; look < 4; look++) {
        await region.time.advanceMs(random.below(120))
        const kept = denied.take(check, region.version)
        if (kept === null) break
        expectSame(kept.decisions[0], await region.check())
        compared += 1
      }
    }
    expect(compared).toBeGreaterThan(10)
  })
})

describe("a region's news", () => {
  const told: string[] = []
  const listener: NewsListener = {
    grown: (counter) => told.push(counter),
    policiesChanged: () => told.push('policies'),
    heard: () => told.push('heard'),
    silent: () => told.push('silent'),
  }
  let stop = (): void => {}
  beforeAll(async () => {
    await region.begin([aLimit({ algorithm: 'fixed_window', capacity: 20, windowMs: 60_000 })])
    const redis = await readyRedis(region.server.url)
    listenForNews(redis, listener)
    redis.emit('ready')
    stop = () => redis.disconnect()
    await vi.waitFor(() => expect(told).toContain('heard'))
  })
  afterAll(() => stop())

  async function expectTold(what: string, act: () => Promise<unknown>): Promise<void> {
    told.length = 0
    await act()
    await vi.waitFor(() => expect(told).toContain(what))
  }

  it('tell of a refund, a returned lease, a grown share and other policies, and of no check', async () => {
    const counter = region.counter()
    const check = region.target(2)
    const { atUs } = await region.checks.check(check, region.version)
    await expectTold(counter, () => region.checks.refund(check, region.version, atUs))
    await region.lease('mine', 10)
    await expectTold(counter, () => region.giveUp('mine', 5))
    await expectTold(counter, () => region.share(shareOf(counter)))
    await expectTold('policies', () => region.write(region.limits))
    told.length = 0
    await region.check()
    await region.share({ ...shareOf(counter, POOL_UNITS / 2), shrinks: true })
    await expectTold('policies', () => region.write(region.limits))
    expect(told).toEqual(['policies'])
  })

  it('count denials that Redis was not asked for, of tracked counters and of others', async () => {
    await region.begin([aLimit({ algorithm: 'fixed_window', capacity: 20, windowMs: 60_000 })])
    const denials = createDenialLog({ redis: region.redis })
    await region.check(1, 'globex')
    await region.share(shareOf(region.counter('acme')))
    const targets = ['acme', 'globex'].map((key) => region.target(1, key))
    for (const { group, targets: all } of targets) {
      const [target] = all
      if (target === undefined) throw new Error('a target')
      await denials.note(group, [{ target, tokens: 7 }], region.version)
    }
    const { samples, noticed, usage } = await region.daemon.collect()
    expect(samples).toMatchObject([{ id: region.counter('acme'), denied: 7 }])
    expect(noticed).toEqual([region.counter('globex')])
    expect(usage.reduce((sum, row) => sum + row.denied, 0)).toBe(14)
  })
})
