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
  written = new WrittenPolicies(0)
  policies: readonly RegionPolicy[] = []
  version = 0

  write(nowUs: number, rule: OverrideRule | null, home = POOL_UNITS): void {
    const overrides = rule === null ? [] : [{ value: 'acme', rule }]
    const { overrides: _o, overridesVersion: _v, ...policy } = aRegionPolicy({ tiers: TIERS })
    const wanted = { ...policy, limits: [spec(home)], overrides }
    const change = { version: ++this.version, nowUs, boot: BOOT }
    this.policies = [this.written.stamp(wanted, change)]
    const unread = { set: [], removed: [], texts: new Map() }
    const written = { policies: this.policies, plane: unread, region: unread }
    this.written = this.written.after(written, this.version)
  }

  of(tenant: string): RegionLimit {
    const [policy] = this.policies
    const [limit] = policy?.limits ?? []
    if (policy === undefined || limit === undefined) throw new Error('a policy was written')
    return tenantLimit(policy, limit, policyOverrides(policy)?.byValue.get(tenant))
  }
}

const numbers = (capacity: number, burst: number): OverrideRule => ({
  kind: 'numbers',
  limits: { l: { capacity, burst } },
})

/** Of all kinds of how long a bucket takes to fill, and so how long its state is kept. */
const RULES: readonly (OverrideRule | null)[] = [
  null,
  { kind: 'tier', tier: 'pro' },
  { kind: 'tier', tier: 'free' },
  numbers(120, 240),
  numbers(6, 600),
  numbers(600, 1),
]

/** The numbers that a rule gives the limit. */
function numbersUnder(rule: OverrideRule | null): { capacity: number; burst: number } {
  if (rule?.kind === 'tier') return { burst: 600, ...TIERS[rule.tier as 'pro'].l }
  if (rule?.kind === 'numbers') return { burst: 0, capacity: 0, ...rule.limits['l'] }
  return { capacity: 60, burst: 60 }
}

function settle(state: BucketState | null, limit: RegionLimit, nowUs: number) {
  return tokenBucket.settle(state, { limit, share: null, boot: BOOT, nowUs })
}

interface Step {
  readonly us: number
  readonly rule: number
  readonly home: number
  readonly isWritten: boolean
  readonly cost: number
  /** Whether the state outlives a restart of the daemon, as that of a counter with a share does. */
  readonly isTracked?: boolean
}

/** A tenant that moves between overrides, and one whose limit of its own changes alike; both spend the same. */
class Lives {
  readonly region = new Region()
  #nowUs = START_US
  #alone: RegionLimit
  #tenant: BucketState | null = null
  #twin: BucketState | null = null
  #goneUs = 0

  constructor() {
    this.region.write(this.#nowUs, null)
    const change = { version: 1, nowUs: this.#nowUs, boot: BOOT }
    this.#alone = stampLimit(undefined, spec(POOL_UNITS), change)
  }

  /** Lives one step; what each may take then, before it spends. */
  live({ us, rule, home, isWritten, cost, isTracked = false }: Step) {
    this.#nowUs += us
    if (isWritten) this.#write(RULES[rule] ?? null, home)
    // Redis expires a key up to a millisecond late.
    if (this.#nowUs > this.#goneUs) this.#tenant = this.#twin = null
    const ours = settle(this.#tenant, this.region.of('acme'), this.#nowUs)
    const theirs = settle(this.#twin, this.#alone, this.#nowUs)
    const spent = Math.min(cost, ours.remaining, theirs.remaining)
    if (spent > 0) {
      this.#tenant = tokenBucket.store(tokenBucket.take(ours, spent))
      this.#twin = tokenBucket.store(tokenBucket.take(theirs, spent))
      const keptMs = tokenBucket.keepMs(ours) + (isTracked ? 600_000 : 0)
      this.#goneUs = this.#nowUs + keptMs * 1_000 + 1_000
    }
    return { ours: ours.remaining, theirs: theirs.remaining }
  }

  #write(rule: OverrideRule | null, home: number): void {
    this.region.write(this.#nowUs, rule, home)
    const wanted = { ...spec(home), ...numbersUnder(rule) }
    const change = { version: this.region.version, nowUs: this.#nowUs, boot: BOOT }
    this.#alone = stampLimit(this.#alone, wanted, change)
  }
}

const HALF = POOL_UNITS / 2
const still = { us: 1, rule: 0, home: POOL_UNITS, isWritten: false, cost: 0 }
const write = (us: number, rule: number, home = POOL_UNITS): Step => ({
  ...still,
  us,
  rule,
  home,
  isWritten: true,
})

describe('a tenant that moves between variants', () => {
  const step = fc.record({
    us: fc.oneof(
      fc.integer({ min: 1, max: 90_000_000 }),
      fc.integer({ min: 1, max: 1_000_000_000 }),
      fc.integer({ min: 1, max: 20_000_000_000 }),
    ),
    rule: fc.integer({ min: 0, max: RULES.length - 1 }),
    home: fc.constantFrom(POOL_UNITS, HALF),
    isWritten: fc.boolean(),
    cost: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 600 })),
    isTracked: fc.boolean(),
  })

  it('never has more than a limit of its own that changes alike, whatever else is written', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        const lives = new Lives()
        for (const one of steps) {
          const { ours, theirs } = lives.live(one)
          expect(ours, JSON.stringify(steps)).toBeLessThanOrEqual(theirs)
        }
      }),
      { numRuns: Number(process.env['RUNS'] ?? 600) },
    )
  })

  it.each<[string, readonly Step[]]>([
    [
      'once its state from before the move may just have expired',
      [{ ...still, cost: 1 }, write(1, 1), write(86_000_000, 1, HALF), still],
    ],
    [
      'while its state from before the move is kept longer, as that of a share is',
      [{ ...still, cost: 60, isTracked: true }, write(1, 4), write(90_000_000, 4, HALF), still],
    ],
    [
      'once its old numbers would have filled and the new ones have not',
      [write(1, 4), write(9e7, 4)],
    ],
    ['when the share of all tenants is halved soon after', [write(1, 3), write(1, 3, HALF)]],
    [
      'when it comes back from a fast bucket to a slow one',
      [write(1, 5), write(1, 4), write(9e7, 4)],
    ],
  ])('has no more %s', (_when, steps) => {
    const lives = new Lives()
    for (const one of steps) {
      const { ours, theirs } = lives.live(one)
      expect(ours).toBeLessThanOrEqual(theirs)
    }
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

  it('leaves nothing behind once no counter can remember what it had, however long that takes', () => {
    const region = new Region()
    region.write(START_US, null)
    region.write(START_US + 1_000_000, { kind: 'tier', tier: 'pro' })
    region.write(START_US + 2_000_000, null)
    // 86 s to fill, and ten minutes more where it has a share.
    region.write(START_US + 687_000_000, null)
    expect(region.policies[0]?.overrides).toMatchObject([{ value: 'acme', rule: null }])
    region.write(START_US + 689_000_000, null)
    expect(region.policies[0]?.overrides).toBeUndefined()
  })

  it('costs nothing to keep while others move and the share of all of them grows', () => {
    const region = new Region()
    region.write(START_US, { kind: 'tier', tier: 'pro' })
    region.write(START_US + 1, { kind: 'tier', tier: 'pro' }, HALF)
    region.write(START_US + 2, { kind: 'tier', tier: 'pro' })
    expect(region.policies[0]?.overrides).toEqual([
      { value: 'acme', rule: { kind: 'tier', tier: 'pro' } },
    ])
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
