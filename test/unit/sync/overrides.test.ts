import { describe, expect, it } from 'vitest'
import { planeOf } from '../../../services/sync/plane.ts'
import { nextExpiryMs, regionPolicies } from '../../../services/sync/region-policies.ts'
import { aPolicy } from '../../support/memory-plane.ts'

const deny = { kind: 'deny' } as const
const policy = {
  ...aPolicy(),
  overrides: [
    { value: 'always', rule: deny },
    { value: 'until-50', rule: deny, expiresAtMs: 50 },
    { value: 'until-90', rule: deny, expiresAtMs: 90 },
  ],
}
const plane = planeOf([policy], 1, ['us-east-1'])
const valuesAt = (storeMs: number) =>
  [...regionPolicies(plane, new Map([[1, 600_000]]), new Map(), storeMs)].flatMap(
    ({ overrides = [] }) => overrides.map(({ value }) => value),
  )

describe('an override that expires', () => {
  it('is in force until its time by the clock of the region, whatever admin does', () => {
    expect(valuesAt(49)).toEqual(['always', 'until-50', 'until-90'])
    expect(valuesAt(50)).toEqual(['always', 'until-90'])
    expect(valuesAt(90)).toEqual(['always'])
  })

  it('is the next thing to be written when its time comes', () => {
    expect([nextExpiryMs(plane, 49), nextExpiryMs(plane, 50), nextExpiryMs(plane, 90)]).toEqual([
      50,
      90,
      Number.POSITIVE_INFINITY,
    ])
  })

  it('gets in relaxed mode what that adds to its numbers', () => {
    const numbers = { kind: 'numbers', limits: { 'per-second': { capacity: 200 } } } as const
    const relaxed = {
      ...policy,
      mode: 'relaxed' as const,
      relaxedPercent: 10,
      tiers: { pro: { 'per-second': { capacity: 100, burst: 50 } } },
      overrides: [{ value: 'a', rule: numbers }],
    }
    const [written] = regionPolicies(planeOf([relaxed], 1, []), new Map([[1, 1]]), new Map(), 0)
    expect(written?.tiers).toEqual({ pro: { 'per-second': { capacity: 110, burst: 55 } } })
    expect(written?.overrides).toMatchObject([
      { rule: { limits: { 'per-second': { capacity: 220 } } } },
    ])
  })
})
