import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** A Redis that answers, and says that it does not do what it is asked. */

const limits = [{ algorithm: 'fixed_window', capacity: 1_000, windowMs: 3_600_000 }] as const
const policies = [
  aPolicy({ domain: 'allowing', onStoreFailure: 'allow', limits }),
  aPolicy({ domain: 'denying', onStoreFailure: 'deny', limits }),
]

let region: TestRegion
let redis: Redis
let enforcer: TestEnforcer

beforeAll(async () => {
  // So that it takes a while to read its data, and answers meanwhile.
  const args = ['--key-load-delay', '2000', '--loading-process-events-interval-bytes', '1024']
  region = await startRegion(policies, args)
  redis = new Redis(region.redis.url, { enableReadyCheck: false })
  redis.on('error', () => {})
})
afterAll(async () => {
  redis.disconnect()
  await region.stop()
})
beforeEach(async () => {
  enforcer = await region.startEnforcer({ deadlineMs: 500 })
})

const ask = (domain: string, query = '') => enforcer.check('acme', { domain, query })

/** Each policy decides as its operator chose; nothing is a denial for want of tokens, nor an error. */
async function expectPolicies(): Promise<void> {
  const [allowed, denied] = await Promise.all([ask('allowing'), ask('denying', '?deny=429')])
  expect(allowed).toMatchObject({ status: 200, answer: { allowed: true, degraded: true } })
  expect(denied).toMatchObject({ status: 503, answer: { allowed: false, degraded: true } })
  for (const { answer } of [allowed, denied]) {
    expect(answer.decisions[0]).toMatchObject({ reason: 'store_unavailable', remaining: null })
  }
}

async function expectDecidedAgain(): Promise<void> {
  await vi.waitFor(
    async () => {
      const { answer } = await ask('denying')
      expect(answer).toMatchObject({ allowed: true, degraded: false })
    },
    { timeout: 10_000, interval: 20 },
  )
}

it('while it loads its data policies decide, and it does once it is there and served (LOADING)', async () => {
  await expectDecidedAgain()
  const crowd = redis.pipeline()
  for (let key = 0; key < 1_500; key++) crowd.set(`crowd:${key}`, 'x'.repeat(1_000))
  await crowd.exec()
  const restarted = region.redis.restart({ keepData: true })
  await vi.waitFor(() => expect(redis.get('crowd:1')).rejects.toThrow(/^LOADING/), {
    timeout: 10_000,
    interval: 5,
  })
  for (let turn = 0; turn < 20; turn++) await expectPolicies()
  await restarted
  // It has its keys again, of which nobody knows whether they are the last: not before the daemon says so.
  await expectPolicies()
  await region.boot(policies)
  await expectDecidedAgain()
})

it('once it is made a replica policies decide, whatever it would still answer, and it does when it is served as a master again (READONLY)', async () => {
  await expectDecidedAgain()
  await redis.call('REPLICAOF', '127.0.0.1', '1')
  await vi.waitFor(expectPolicies, { timeout: 5_000, interval: 10 })
  for (let turn = 0; turn < 20; turn++) await expectPolicies()
  await redis.call('REPLICAOF', 'NO', 'ONE')
  await expectPolicies()
  await region.boot(policies)
  await expectDecidedAgain()
})

it('without its scripts policies decide, until the daemon has loaded them, and nothing of it counts (NOSCRIPT, B089)', async () => {
  await expectDecidedAgain()
  const left = async () => {
    const { answer } = await enforcer.check('acme', { domain: 'denying', cost: 0 })
    return answer.decisions[0]?.remaining ?? 0
  }
  const before = await left()
  await redis.call('SCRIPT', 'FLUSH')
  const answers = await Promise.all(Array.from({ length: 100 }, () => ask('denying')))
  expect(answers.every(({ answer }) => answer.degraded && !answer.allowed)).toBe(true)
  await region.reopen()
  await expectDecidedAgain()
  expect(await left()).toBe(before - 1)
})
