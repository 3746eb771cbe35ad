import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { createCheckStore } from '../../../shared/redis/check-store.ts'
import { USUAL_CHECKS_MAX } from '../../../shared/redis/usual-batch.ts'
import { aLimit, RedisRegion, readyRedis } from '../../support/redis-region.ts'

/** Longer than a connection may owe a reply. */
const SILENCE_MS = 2_300

let region: RedisRegion
let redis: Redis
beforeAll(async () => {
  region = await RedisRegion.start()
  await region.begin([aLimit({ algorithm: 'fixed_window', capacity: 1_000, windowMs: 3_600_000 })])
  redis = await readyRedis(region.server.url)
})
afterAll(async () => {
  redis.disconnect()
  await region.stop()
})

it('a connection is not ended by what the one before it was waiting for (B103)', async () => {
  const checks = createCheckStore({ redis, deadlineMs: 1_000 })
  const ask = () => checks.check(region.target(1), region.version)
  await ask()
  region.server.pause()
  const lost = ask()
  const closed = once(redis, 'close')
  // In flight by then.
  await nextTurn()
  await nextTurn()
  redis.stream.destroy()
  await closed
  await expect(lost).rejects.toMatchObject({ code: 'QUOTA_STORE_UNAVAILABLE' })
  const ready = once(redis, 'ready')
  region.server.resume()
  await ready
  const id = await redis.client('ID')
  const beganMs = performance.now()
  await vi.waitFor(
    async () => {
      expect((await ask()).decisions[0]?.allowed).toBe(true)
      expect(performance.now() - beganMs).toBeGreaterThan(SILENCE_MS)
    },
    { timeout: 10_000, interval: 50 },
  )
  expect(await redis.client('ID')).toBe(id)
})

it('checks that fill a batch leave at once, and those behind them with the turn', async () => {
  const checks = createCheckStore({ redis, deadlineMs: 1_000 })
  const ask = () => checks.check(region.target(1, 'busy'), region.version)
  await ask()
  const before = redis.stream.bytesWritten
  const asked = Array.from({ length: USUAL_CHECKS_MAX - 1 }, ask)
  expect(redis.stream.bytesWritten).toBe(before)
  asked.push(ask())
  expect(redis.stream.bytesWritten).toBeGreaterThan(before)
  asked.push(ask())
  // Each was counted, once and in its turn.
  const left = (await Promise.all(asked)).map(({ decisions }) => decisions[0]?.remaining)
  expect(left).toEqual(Array.from(asked, (_, index) => 998 - index))
})
