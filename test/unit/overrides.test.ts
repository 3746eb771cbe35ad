import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { stampLimit } from '../../shared/core/algorithms/stamp-limit.ts'
import { type BucketState, tokenBucket } from '../../shared/core/algorithms/token-bucket.ts'
import { counterName, valueInName } from '../../shared/core/counter-id.ts'
import { type OverrideRule, overrideEntry } from '../../shared/core/overrides.ts'
import type { RegionLimit, RegionLimitSpec, RegionPolicy } from '../../shared/core/policy.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { policyOverrides, tenantLimit } from '../../shared/core/variant-index.ts'
import { WrittenPolicies } from '../../shared/redis/region-policies.ts'
import { aRegionPolicy, PLAIN_LIMIT } from '../support/region-policy.ts'

const START_US = 1_793_448_000_000_000
const BOOT = { startUs: 0, recovering: false }
const TIERS = { pro: { l: { capacity: 600 } }, free: { l: { capacity: 6, burst: 3 } } }

function spec(home: number): RegionLimitSpec {
  const numbers = { capacity: 60, windowMs: 60_000, burst: 60 }
  return {
    ...PLAIN_LIMIT,
    ...numbers,
    id: 1,
    name: 'l',
    algorithm: 'token_bucket',
    usageEpoch: 0,
    home,
  }
}

/** A region whose policies are written again and again, and what the tenant acme has of its one limit. */
class Region {
  written = new WrittenPolicies(0, [], [])
  policies: readonly RegionPolicy[] = []
  version = 0

  write(nowUs: number, rule: OverrideRule | null, home = POOL_UNITS): void {
    const overrides = rule === null ? [] : [{ value: 'acme', rule }]
    const { overrides: _o, overridesVersion: _v, ...policy } = aRegionPolicy({ tiers: TIERS })
    const wanted = [{ ...policy, limits: [spec(home)], overrides }]
    const change = { version: ++this.version, nowUs, boot: BOOT }
    this.policies = this.written.stamp(wanted, change)
    const [plane, region] = [this.written.planeChange([]), this.written.regionChange(this.policies)]
    this.written.accept({ version: this.version, plane, region, policies: this.policies })
  }

  of(tenant: string): RegionLimit {
    const [policy] = this.policies
    const [limit] = policy?.limits ?? []
    if (policy === undefined || limit === undefined) throw new Error('a policy was written')
    return tenantLimit(policy, limit, policyOverrides(policy)?.byValue.get(tenant))
  }
}

const RULES: readonly (OverrideRule | null)[] = [
  null,
  { kind: 'tier', tier: 'pro' },
  { kind: 'tier', tier: 'free' },
  { kind: 'numbers', limits: { l: { capacity: 120, burst: 240 } } },
]

/** The numbers that a rule gives the limit. */
function numbersUnder(rule: OverrideRule | null): { capacity: number; burst: number } {
  if (rule?.kind === 'tier') return { burst: 600, ...TIERS[rule.tier as 'pro'].l }
  if (rule?.kind === 'numbers') return { capacity: 120, burst: 240 }
  return { capacity: 60, burst: 60 }
}

function settle(state: BucketState | null, limit: RegionLimit, nowUs: number) {
  return tokenBucket.settle(state, { limit, share: null, boot: BOOT, nowUs })
}

describe('a tenant that moves between variants', () => {
  it('never has more than a limit of its own that changes alike, whatever else is written', () => {
    const step = fc.record({
      us: fc.integer({ min: 1, max: 90_000_000 }),
      rule: fc.integer({ min: 0, max: RULES.length - 1 }),
      home: fc.constantFrom(POOL_UNITS, POOL_UNITS / 2),
      isWritten: fc.boolean(),
      cost: fc.integer({ min: 0, max: 200 }),
    })
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const region = new Region()
        let nowUs = START_US
        region.write(nowUs, null)
        // The same life as that of a limit without overrides whose own numbers change.
        let alone = stampLimit(undefined, spec(POOL_UNITS), { version: 1, nowUs, boot: BOOT })
        let tenant: BucketState | null = null
        let twin: BucketState | null = null
        for (const { us, rule, home, isWritten, cost } of steps) {
          nowUs += us
          if (isWritten) {
            const chosen = RULES[rule] ?? null
            region.write(nowUs, chosen, home)
            const wanted = { ...spec(home), ...numbersUnder(chosen) }
            alone = stampLimit(alone, wanted, { version: region.version, nowUs, boot: BOOT })
          }
          const ours = settle(tenant, region.of('acme'), nowUs)
          const theirs = settle(twin, alone, nowUs)
          // A counter that has expired in one life has in the other: both are kept for as long.
          expect(ours.remaining, JSON.stringify(steps)).toBeLessThanOrEqual(theirs.remaining)
          const spent = Math.min(cost, ours.remaining)
          if (spent === 0) continue
          tenant = tokenBucket.store(tokenBucket.take(ours, spent))
          twin = tokenBucket.store(tokenBucket.take(theirs, spent))
          tenant = { ...tenant, whole: Math.min(tenant.whole, twin.whole) }
        }
      }),
      { numRuns: 400 },
    )
  })

  it('keeps what it has left, and refills by the new numbers only from the move on', () => {
    const region = new Region()
    region.write(START_US, null)
    const spent = tokenBucket.take(settle(null, region.of('acme'), START_US), 50)
    const state = tokenBucket.store(spent)
    region.write(START_US + 10_000_000, { kind: 'tier', tier: 'pro' })
    const pro = region.of('acme')
    // 10 left, 10 s at 1 a second until the move, then 10 a second.
    expect(settle(state, pro, START_US + 10_000_000).remaining).toBe(20)
    expect(settle(state, pro, START_US + 12_000_000).remaining).toBe(40)
    expect(region.of('other')).toMatchObject({ capacity: 60, version: 1 })
    region.write(START_US + 12_000_000, null)
    expect(settle(state, region.of('acme'), START_US + 12_000_000).remaining).toBeLessThanOrEqual(
      40,
    )
  })

  it('leaves nothing behind once no counter can remember what it had', () => {
    const region = new Region()
    region.write(START_US, null)
    region.write(START_US + 1_000_000, { kind: 'tier', tier: 'pro' })
    region.write(START_US + 2_000_000, null)
    expect(region.policies[0]?.overrides).toMatchObject([{ value: 'acme', rule: null }])
    region.write(START_US + 200_000_000, null)
    expect(region.policies[0]?.overrides).toBeUndefined()
  })

  it('tells enforcers of each change, and of none that changes nothing', () => {
    const region = new Region()
    region.write(START_US, null)
    expect(region.policies[0]?.overridesVersion).toBeUndefined()
    region.write(START_US + 1, { kind: 'deny' })
    region.write(START_US + 2, { kind: 'deny' })
    expect(region.policies[0]?.overridesVersion).toBe(2)
    region.write(START_US + 3, null)
    expect(region.policies[0]?.overridesVersion).toBe(4)
  })

  it('has its shares written with its own numbers, found by the counter alone', () => {
    const region = new Region()
    region.write(START_US, { kind: 'tier', tier: 'pro' })
    const id = (tenant: string) => `{04s}1.0:tenant=${tenant}`
    expect(region.written.limitFor(id('acme'))).toMatchObject({ id: 1, capacity: 600 })
    expect(region.written.limitFor(id('other'))).toMatchObject({ id: 1, capacity: 60 })
    expect(region.written.isReadable(id('acme'))).toBe(true)
    expect(region.written.isReadable('{04s}1.0:#hash')).toBe(false)
    expect(region.written.limitFor('{04s}2.0:tenant=acme')).toBeUndefined()
  })
})

describe('the entry that names the tenant', () => {
  it('is the one asked for, or the first with many values, or the first', () => {
    const match = [{ key: 'path', value: '/a' }, { key: 'tenant' }, { key: 'user' }]
    expect(overrideEntry(match, null)).toBe(1)
    expect(overrideEntry(match, 'user')).toBe(2)
    expect(overrideEntry([{ key: 'path', value: '/a' }], null)).toBe(0)
  })

  it('is read from a counter as it was sent, whatever it holds', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 3 }), (values) => {
        const entries = values.map((value) => ({ key: 'k=,', value }))
        const name = counterName(entries, () => 'hash')
        for (const [index, value] of values.entries()) {
          expect([value, null]).toContain(valueInName(name, index))
          if (!name.startsWith('#')) expect(valueInName(name, index)).toBe(value)
        }
      }),
    )
  })
})
