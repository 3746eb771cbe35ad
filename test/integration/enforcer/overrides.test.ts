import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Override } from '../../../shared/core/overrides.ts'
import type { RegionPolicySpec } from '../../../shared/core/policy.ts'
import { aPolicy, startRegion, type TestEnforcer, type TestRegion } from './region.ts'

/** So long that nothing refills and no test meets its end. */
const windowMs = 3_600_000
const LIMIT = { id: 700, name: 'per-hour', capacity: 10, windowMs }
const TIERS = { pro: { 'per-hour': { capacity: 20 } } }

let region: TestRegion
let enforcer: TestEnforcer
beforeAll(async () => {
  region = await startRegion([])
  enforcer = await region.startEnforcer()
})
afterAll(() => region.stop())

async function write(policy: Partial<RegionPolicySpec>, ...overrides: readonly Override[]) {
  const { limits: _, ...rest } = policy
  const set = aPolicy({
    ...rest,
    limits: [{ ...LIMIT, algorithm: policy.limits?.[0]?.algorithm ?? 'token_bucket' }],
  })
  const version = await region.write([{ ...set, tiers: TIERS, overrides }])
  await expect.poll(() => enforcer.policies.current()?.version).toBe(version)
}

async function left(tenant: string, cost = 0): Promise<unknown> {
  const { answer } = await enforcer.check(tenant, { cost })
  return [answer.allowed, answer.decisions[0]?.limit, answer.decisions[0]?.remaining]
}

const pro = (value: string): Override => ({ value, rule: { kind: 'tier', tier: 'pro' } })

describe('an override', () => {
  it('gives one tenant other numbers and keeps what it has used, also on the way back', async () => {
    await write({})
    expect(await left('acme', 8)).toEqual([true, 10, 2])
    await write({}, pro('acme'))
    // A raised limit does not fill the bucket; a lowered one takes only what is above it.
    expect(await left('acme')).toEqual([true, 20, 2])
    expect(await left('other')).toEqual([true, 10, 10])
    await write({})
    expect(await left('acme')).toEqual([true, 10, 2])
  })

  it('raises a window in the middle, which goes on with what was used in it (B074, B119)', async () => {
    const limits = [{ ...LIMIT, algorithm: 'fixed_window' }] as never
    await write({ limits })
    expect(await left('window', 8)).toEqual([true, 10, 2])
    await write({ limits }, pro('window'))
    expect(await left('window')).toEqual([true, 20, 12])
    await write({ limits })
    expect(await left('window', 2)).toEqual([true, 10, 0])
  })

  it('denies all or allows all of one tenant, and only of that', async () => {
    const deny: Override = { value: 'bad', rule: { kind: 'deny' } }
    const free: Override = { value: 'good', rule: { kind: 'unlimited' } }
    await write({}, deny, free)
    const { answer } = await enforcer.check('bad')
    expect(answer.decisions).toMatchObject([
      { allowed: false, reason: 'deny_all', limit: 0, retryAfterMs: null },
    ])
    expect((await enforcer.check('good', { cost: 1_000 })).answer).toMatchObject({
      allowed: true,
      unlimited: [0],
    })
    expect(await left('neither', 1)).toEqual([true, 10, 9])
  })

  it('costs other tenants nothing: ten thousand more change no route and no counter', async () => {
    const many = Array.from({ length: 10_000 }, (_, i) => pro(`tenant-${i}`))
    await write({}, ...many)
    expect(await left('tenant-9999', 1)).toEqual([true, 20, 19])
    expect(await left('elsewhere', 1)).toEqual([true, 10, 9])
  })
})
