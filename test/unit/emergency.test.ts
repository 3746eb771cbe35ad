import { describe, expect, it } from 'vitest'
import { inForceOf, ledgerLimits, planeOf } from '../../services/sync/plane.ts'
import { nextExpiryMs, regionPolicies } from '../../services/sync/region-policies.ts'
import { type EmergencyEffect, underEmergency } from '../../shared/core/emergency.ts'
import type { Policy } from '../../shared/core/policy.ts'
import { aPolicy } from '../support/memory-plane.ts'

const ENDS_MS = 1_000

function under(effects: readonly EmergencyEffect[], change: Partial<Policy> = {}): Policy {
  const emergency = effects.map((effect, id) => ({ id, effect, expiresAtMs: ENDS_MS }))
  return { ...aPolicy({ capacity: 1_000, burst: 500 }), ...change, emergency }
}

const numbersOf = (policy: Policy, atMs = 0) =>
  underEmergency(policy, atMs).limits.map(({ capacity, burst }) => ({ capacity, burst }))

describe('an emergency action', () => {
  it('is in force until its time by the clock that it is asked for, and the policy is as before then', () => {
    const policy = under([{ kind: 'multiply', limit: 'per-second', factor: 2 }])
    expect(numbersOf(policy, ENDS_MS - 1)).toEqual([{ capacity: 2_000, burst: 1_000 }])
    expect(underEmergency(policy, ENDS_MS)).toBe(policy)
  })

  it('multiplies a limit with all that tenants have of it, and rounds down', () => {
    const tiers = { pro: { 'per-second': { capacity: 333, burst: 7 } } }
    const overrides = [
      { value: 'own', rule: { kind: 'numbers', limits: { 'per-second': { capacity: 5 } } } },
      { value: 'other', rule: { kind: 'numbers', limits: { another: { capacity: 5 } } } },
    ] as const
    const policy = under([{ kind: 'multiply', limit: 'per-second', factor: 0.5 }], {
      tiers,
      overrides,
    })
    const shown = underEmergency(policy, 0)
    expect(numbersOf(policy)).toEqual([{ capacity: 500, burst: 250 }])
    expect(shown.tiers).toEqual({ pro: { 'per-second': { capacity: 166, burst: 3 } } })
    expect(shown.overrides).toMatchObject([
      { rule: { limits: { 'per-second': { capacity: 2 } } } },
      { rule: { limits: { another: { capacity: 5 } } } },
    ])
  })

  it('leaves nothing at nothing and something at something, however small the factor', () => {
    const tiny = { kind: 'multiply', limit: 'per-second', factor: 0.01 } as const
    const [limit] = aPolicy({ capacity: 3 }).limits
    if (limit === undefined) throw new Error('a limit')
    const limits = [{ ...limit, capacity: 3, burst: 3 }]
    expect(numbersOf(under([tiny], { limits }))).toEqual([{ capacity: 1, burst: 1 }])
    const none = [{ ...limit, capacity: 0, burst: 0 }]
    expect(numbersOf(under([tiny], { limits: none }))).toEqual([{ capacity: 0, burst: 0 }])
  })

  it('fixes the numbers of a limit, and those that tenants have of their own stay', () => {
    const tiers = { pro: { 'per-second': { capacity: 333 } } }
    const fix = { kind: 'fix', limit: 'per-second', capacity: 0, burst: 0 } as const
    const policy = under([fix], { tiers })
    expect(numbersOf(policy)).toEqual([{ capacity: 0, burst: 0 }])
    expect(underEmergency(policy, 0).tiers).toEqual(tiers)
  })

  it('blocks or allows a tenant in place of what it had, and gives that back', () => {
    const overrides = [{ value: 'acme', rule: { kind: 'tier', tier: 'pro' } }] as const
    const effects = [
      { kind: 'block', value: 'acme' },
      { kind: 'allow', value: 'globex' },
    ] as const
    const policy = under(effects, { overrides })
    expect(underEmergency(policy, 0).overrides).toEqual([
      { value: 'acme', rule: { kind: 'deny' } },
      { value: 'globex', rule: { kind: 'unlimited' } },
    ])
    expect(underEmergency(policy, ENDS_MS).overrides).toEqual(overrides)
  })

  it('is what the ledger and the enforcers of a region work with, and the next thing to be written at its end', () => {
    const effects = [
      { kind: 'multiply', limit: 'per-second', factor: 2 },
      { kind: 'pin', limit: null },
    ] as const
    const plane = planeOf([under(effects)], 1, ['us-east-1'])
    const inForce = inForceOf(plane, 0).plane
    expect(ledgerLimits(inForce).get(1)).toMatchObject({ capacity: 2_000, lending: 'none' })
    const [written] = regionPolicies(inForce, new Map([[1, 600_000]]), new Map(), 0)
    expect(written?.limits).toMatchObject([{ capacity: 2_000, home: 600_000 }])
    expect(written).not.toHaveProperty('emergency')
    expect(nextExpiryMs(plane, 0)).toBe(ENDS_MS)
    expect(nextExpiryMs(plane, ENDS_MS)).toBe(Number.POSITIVE_INFINITY)
    expect(inForceOf(plane, ENDS_MS).plane.policies.get(1)).toEqual(plane.policies.get(1))
  })

  it('does not touch a candidate, which is what all tenants would have', () => {
    const [limit] = aPolicy({ capacity: 10 }).limits
    if (limit === undefined) throw new Error('a limit')
    const limits = [limit, { ...limit, id: 2, candidateOf: 1 }]
    const policy = under([{ kind: 'multiply', limit: 'per-second', factor: 3 }], { limits })
    expect(numbersOf(policy).map(({ capacity }) => capacity)).toEqual([30, 10])
  })
})
