import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALGORITHMS } from '../../shared/core/policy.ts'
import type { RequestCheck } from '../../shared/core/ports.ts'
import { aLimit, NOON_US, RedisRegion } from '../support/redis-region.ts'

/** What CheckStore promises of tokens that come back: refunds and releases. */

let region: RedisRegion
beforeAll(async () => {
  region = await RedisRegion.start()
})
afterAll(() => region.stop())

async function begin(...limits: Parameters<typeof aLimit>[0][]): Promise<void> {
  await region.time.set(NOON_US)
  await region.begin(limits.map((limit, index) => aLimit({ id: index + 1, ...limit })))
}

function asked(requestId: string, cost = 1, ids?: readonly number[]): RequestCheck {
  return { ...region.target(cost, 'acme', ids), requestId }
}

async function admitted(requestId: string, cost = 1): Promise<boolean> {
  const { decisions } = await region.checks.check(asked(requestId, cost), region.version)
  return decisions[0]?.allowed === true
}

const holdFree = ALGORITHMS.filter((algorithm) => algorithm !== 'concurrency')

describe.each(holdFree)('a refund of a %s', (algorithm) => {
  const refund = (requestId: string, cost: number, atUs: number) =>
    region.checks.refund(asked(requestId, cost), region.version, atUs)

  it('credits each request once, however often it is asked for', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 60_000 })
    const { atUs } = await region.checks.check(asked('a', 8), region.version)
    const answers = await Promise.all([1, 2, 3].map(() => refund('a', 3, atUs)))
    expect(answers.map(({ outcome }) => outcome)).toEqual(['refunded', 'repeated', 'repeated'])
    expect(answers[0]?.credited).toEqual([true])
    expect((await refund('a', 3, atUs)).outcome).toBe('repeated')
    expect(await region.check(0)).toMatchObject({ remaining: 5 })
    expect((await refund('b', 3, atUs)).outcome).toBe('refunded')
    expect(await region.check(0)).toMatchObject({ remaining: 8 })
  })

  it('B044: never lifts it above its capacity, and creates no counter', async () => {
    await begin({ algorithm, capacity: 2, windowMs: 60_000 })
    expect(await refund('a', 5, region.time.us)).toMatchObject({ credited: [false] })
    expect(await region.redis.keys('c:*')).toEqual([])
    const { atUs } = await region.checks.check(asked('b'), region.version)
    await refund('b', 5, atUs)
    expect(await region.admitted(5)).toBe(2)
  })

  it('is too late after an hour, and marks nothing then', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 86_400_000 })
    const { atUs } = await region.checks.check(asked('a'), region.version)
    await region.time.advanceMs(3_600_001)
    expect(await refund('a', 1, atUs)).toEqual({ outcome: 'too_late', credited: [false] })
    expect(await region.redis.keys('r:*')).toEqual([])
  })

  it('leaves a mark that expires', async () => {
    await begin({ algorithm, capacity: 10, windowMs: 60_000 })
    const { atUs } = await region.checks.check(asked('a'), region.version)
    await refund('a', 1, atUs)
    const [mark] = await region.redis.keys('r:*')
    expect(await region.redis.pttl(mark ?? '')).toBeGreaterThan(3_600_000)
  })
})

it('B047: a refund never credits another window than the one that still counts its tokens', async () => {
  await begin({ algorithm: 'fixed_window', capacity: 100, windowMs: 60_000 })
  const { atUs } = await region.checks.check(asked('a', 50), region.version)
  await region.time.advanceMs(61_000)
  await region.check(1)
  expect(await region.checks.refund(asked('a', 30), region.version, atUs)).toEqual({
    outcome: 'refunded',
    credited: [false],
  })
  expect(await region.check(0)).toMatchObject({ remaining: 99 })
})

it('a refund of a bucket credits what the limit has not refilled since, and so nothing long after', async () => {
  await begin({ capacity: 10, windowMs: 10_000 })
  const { atUs } = await region.checks.check(asked('a', 10), region.version)
  await region.time.advanceMs(4_000)
  // 4 were refilled, 6 of 10 are credited: as full as before, not fuller.
  await region.checks.refund(asked('a', 10), region.version, atUs)
  expect(await region.check(0)).toMatchObject({ remaining: 10 })
  const second = await region.checks.check(asked('b', 4), region.version)
  await region.time.advanceMs(4_000)
  expect(await region.admitted(10)).toBe(10)
  await region.checks.refund(asked('b', 4), region.version, second.atUs)
  expect(await region.check(0)).toMatchObject({ remaining: 0 })
})

describe('a release', () => {
  it('frees what its request holds, once', async () => {
    await begin({ algorithm: 'concurrency', capacity: 3, windowMs: 60_000 })
    expect(await admitted('a', 2)).toBe(true)
    expect(await admitted('b', 2)).toBe(false)
    const release = () => region.checks.release(asked('a'), region.version)
    const twice = await Promise.all([release(), release()])
    expect(twice).toEqual([{ released: [2] }, { released: [0] }])
    expect(await admitted('b', 2)).toBe(true)
  })

  it('is not needed of a holder that crashed: its longest hold ends', async () => {
    await begin({ algorithm: 'concurrency', capacity: 1, windowMs: 60_000 })
    await admitted('crashed')
    await region.time.advanceMs(59_999)
    expect(await admitted('next')).toBe(false)
    await region.time.advanceMs(1)
    expect(await admitted('next')).toBe(true)
  })

  it('of a repeated request is one: it acquired once', async () => {
    await begin({ algorithm: 'concurrency', capacity: 2, windowMs: 60_000 })
    for (let attempt = 0; attempt < 5; attempt++) expect(await admitted('a', 2)).toBe(true)
    expect(await region.check(0)).toMatchObject({ remaining: 0 })
    await region.checks.release(asked('a'), region.version)
    expect(await region.check(0)).toMatchObject({ remaining: 2 })
  })

  it('passes over limits that nobody holds', async () => {
    await begin({ capacity: 10 }, { algorithm: 'concurrency', capacity: 5, windowMs: 60_000 })
    await region.checks.check(asked('a', 3, [1, 2]), region.version)
    const check = asked('a', 3, [1, 2])
    expect(await region.checks.release(check, region.version)).toEqual({ released: [0, 3] })
    expect(await region.check(0)).toMatchObject({ remaining: 7 })
  })

  it('keeps holders of more than 128 bytes apart, and forgets a counter that nobody holds', async () => {
    await begin({ algorithm: 'concurrency', capacity: 2, windowMs: 60_000 })
    const long = 'x'.repeat(500)
    expect([await admitted(`${long}a`), await admitted(`${long}b`)]).toEqual([true, true])
    expect(await admitted(`${long}c`)).toBe(false)
    await region.checks.release(asked(`${long}a`), region.version)
    await region.checks.release(asked(`${long}b`), region.version)
    expect(await region.check(0)).toMatchObject({ remaining: 2 })
  })
})
