import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

const HOUR_MS = 3_600_000

let region: TestRegion
let enforcer: TestEnforcer
let names = 0

const limited = (name: string, limit: NonNullable<Parameters<typeof aPolicy>[0]>['limits']) =>
  aPolicy({ domain: 'api', name, match: [{ key: name }], ...(limit && { limits: limit }) })

const policies: readonly RegionPolicySpec[] = [
  limited('bucket', [{ capacity: 10, windowMs: HOUR_MS }]),
  limited('window', [{ algorithm: 'fixed_window', capacity: 10, windowMs: HOUR_MS }]),
  limited('short', [{ algorithm: 'fixed_window', capacity: 10, windowMs: 1_000 }]),
  limited('held', [{ algorithm: 'concurrency', capacity: 2, windowMs: 60_000 }]),
]

beforeAll(async () => {
  region = await startRegion(policies)
  enforcer = await region.startEnforcer()
})
afterAll(() => region.stop())

/** A descriptor that no other test asks for. */
const fresh = (...kinds: readonly string[]) => {
  names++
  return kinds.map((key) => ({ entries: [{ key, value: `v${names}` }] }))
}

async function post(path: string, payload: object) {
  const reply = await enforcer.app.inject({ method: 'POST', url: path, payload })
  return { status: reply.statusCode, body: reply.json() }
}

async function check(descriptors: unknown, more: object = {}) {
  return (await post('/v1/check', { domain: 'api', descriptors, ...more })).body
}

const remaining = async (descriptors: unknown): Promise<number[]> =>
  (await check(descriptors, { cost: 0 })).decisions.map(
    (one: { remaining: number }) => one.remaining,
  )

describe('POST /v1/refund', () => {
  it('gives the tokens of a check back once, however often it is asked (B046)', async () => {
    const descriptors = fresh('window', 'bucket')
    await check(descriptors, { cost: 5 })
    const { requestId, admittedAtUs } = await check(descriptors, { cost: 3, requestId: 'once' })
    expect(requestId).toBe('once')
    const refund = { domain: 'api', descriptors, cost: 3, requestId, admittedAtUs }
    const outcomes = []
    for (let turn = 0; turn < 3; turn++)
      outcomes.push((await post('/v1/refund', refund)).body.outcome)
    expect(outcomes).toEqual(['refunded', 'repeated', 'repeated'])
    const [window, bucket] = await remaining(descriptors)
    expect(window).toBe(5)
    // What the bucket refilled by itself since then is not given back on top.
    expect(bucket).toBeGreaterThanOrEqual(4)
    expect(bucket).toBeLessThanOrEqual(5)
  })

  it('gives never more than was spent nor than the limit (B044)', async () => {
    const descriptors = fresh('window')
    const { admittedAtUs } = await check(descriptors, { cost: 2, requestId: 'capped' })
    const refund = { domain: 'api', descriptors, cost: 9, requestId: 'capped', admittedAtUs }
    expect((await post('/v1/refund', refund)).body.outcome).toBe('refunded')
    expect(await remaining(descriptors)).toEqual([10])
  })

  it('never credits another window than that of the check (B047)', async () => {
    const descriptors = fresh('short')
    const { admittedAtUs } = await check(descriptors, { cost: 5, requestId: 'late' })
    await expect.poll(() => remaining(descriptors), { interval: 20, timeout: 5_000 }).toEqual([10])
    await check(descriptors, { cost: 4 })
    const refund = { domain: 'api', descriptors, cost: 5, requestId: 'late', admittedAtUs }
    const { body } = await post('/v1/refund', refund)
    expect(body.limits).toMatchObject([{ policy: 'api/short', tokens: 0 }])
  })

  it('finds nothing where no policy governs', async () => {
    const descriptors = fresh('nothing')
    const refund = { domain: 'api', descriptors, requestId: 'x', admittedAtUs: 1 }
    expect((await post('/v1/refund', refund)).body).toMatchObject({
      outcome: 'unmatched',
      limits: [],
    })
  })

  it.each([
    [{ requestId: undefined }, 'requestId'],
    [{ admittedAtUs: undefined }, 'admittedAtUs'],
    [{ admittedAtUs: 1.5 }, 'admittedAtUs'],
    [{ admittedAtUs: '1' }, 'admittedAtUs'],
    [{ cost: -1 }, 'cost'],
    [{ at: 1 }, 'at'],
  ])('refuses %j', async (change, field) => {
    const base = { domain: 'api', descriptors: fresh('window'), requestId: 'r', admittedAtUs: 1 }
    const { status, body } = await post('/v1/refund', { ...base, ...change })
    expect(status).toBe(400)
    expect(body.errors[0].field).toBe(field)
  })
})

describe('POST /v1/release', () => {
  it('frees what a request holds, by the id that its check was given, and only once', async () => {
    const descriptors = fresh('held')
    const [first, second] = [await check(descriptors), await check(descriptors)]
    expect([first.allowed, second.allowed]).toEqual([true, true])
    expect(first.requestId).not.toBe(second.requestId)
    expect((await check(descriptors)).allowed).toBe(false)
    const release = { domain: 'api', descriptors, requestId: first.requestId }
    expect((await post('/v1/release', release)).body.limits).toMatchObject([{ tokens: 1 }])
    expect((await post('/v1/release', release)).body.limits).toMatchObject([{ tokens: 0 }])
    expect((await check(descriptors)).allowed).toBe(true)
    expect((await check(descriptors)).allowed).toBe(false)
  })

  it('frees nothing of a request that holds nothing', async () => {
    const descriptors = fresh('held')
    const { body } = await post('/v1/release', { domain: 'api', descriptors, requestId: 'nobody' })
    expect(body.limits).toMatchObject([{ policy: 'api/held', tokens: 0 }])
  })
})
