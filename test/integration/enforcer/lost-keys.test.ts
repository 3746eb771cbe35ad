import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { aPolicy, startRegion, type TestRegion } from './region.ts'

const LOSSES = [
  (key: string) => redis.del(key),
  (key: string) => redis.persist(key),
  (key: string) => redis.pexpire(key, 1),
]

let region: TestRegion
let redis: Redis

beforeAll(async () => {
  region = await startRegion([
    aPolicy({ limits: [{ algorithm: 'fixed_window', capacity: 1, windowMs: 3_600_000 }] }),
  ])
  redis = new Redis(region.redis.url)
})
afterAll(async () => {
  redis.disconnect()
  await region.stop()
})

it('a denial says a whole wait within its window, whatever becomes of its key meanwhile (B059)', async () => {
  const enforcer = await region.startEnforcer()
  let denied = 0
  for (let round = 0; round < 30; round++) {
    const checks = Array.from({ length: 5 }, () => enforcer.check('acme', { query: '?deny=429' }))
    const [key] = await redis.keys('c:*')
    if (key !== undefined) await LOSSES[round % 3]?.(key)
    for (const { status, retryAfter, answer } of await Promise.all(checks)) {
      if (status === 200) continue
      denied += 1
      expect(retryAfter).toMatch(/^[1-9]\d*$/)
      expect(Number(retryAfter)).toBeLessThanOrEqual(3_600)
      expect(answer.decisions[0]?.resetMs).toBeGreaterThanOrEqual(0)
    }
  }
  expect(denied).toBeGreaterThan(30)
})
