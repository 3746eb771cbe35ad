import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  blockOf,
  creditOf,
  grantedAt,
  LEASE_MS,
  LEASE_TOKENS_MIN,
  leaseDeadlineMs,
  leasedBurst,
  NONE_GRANTED,
  outstanding,
  withGrant,
  withoutGrant,
} from '../../../shared/core/lease.ts'
import { hunt, LEASE_HUNTS } from '../../simulation/kills.ts'
import { overrunsBucket, overrunsWindow } from '../../simulation/leases/mutants.ts'
import { eachSeed } from '../../simulation/seeds.ts'

describe('leases of regions whose shares move', () => {
  it('never admit more than one bucket of the same numbers (INV-5)', () => {
    eachSeed(400, (seed) => expect(overrunsBucket(seed)).toBe(false))
  })

  it('never admit more than one window holds (INV-6)', () => {
    eachSeed(400, (seed) => expect(overrunsWindow(seed)).toBe(false))
  })

  it.each(LEASE_HUNTS)('are found out where $rule', (one) => {
    expect(hunt(one), `no seed up to ${one.seedsMax} shows it`).not.toBeNull()
  })
})

describe('the parts of the rule', () => {
  it('an enforcer stops before Redis does, whatever its clock does within the drift bound', () => {
    const deadline = leaseDeadlineMs(1_000, LEASE_MS)
    expect(deadline).toBeLessThan(1_000 + LEASE_MS)
    // A clock that runs slow by the bound still reads less than LEASE_MS of a fast one.
    expect(((deadline - 1_000) * (1 + 1 / 1_000)) / (1 - 1 / 1_000)).toBeCloseTo(LEASE_MS, 9)
  })

  it('B044: a credit never lifts the bucket, its leases included, above what it may hold', () => {
    const tokens = fc.integer({ min: 0, max: 1_000 })
    fc.assert(
      fc.property(tokens, tokens, tokens, tokens, (returned, capacity, level, others) => {
        const granted = returned + others
        const credit = creditOf({ tokens: returned, capacity, level, granted })
        expect(credit).toBeGreaterThanOrEqual(0)
        expect(credit).toBeLessThanOrEqual(returned)
        if (credit > 0) expect(level + credit + others).toBeLessThanOrEqual(capacity)
      }),
    )
  })

  it('B043: what comes back to an empty bucket is credited', () => {
    expect(creditOf({ tokens: 3, capacity: 10, level: 0, granted: 3 })).toBe(3)
  })

  it('counts a grant for at least its life and for at most twice as long', () => {
    fc.assert(
      fc.property(fc.nat(10_000), fc.nat(400), (atMs, laterMs) => {
        const granted = withGrant(NONE_GRANTED, 5, atMs)
        const counted = outstanding(grantedAt(granted, atMs + laterMs))
        if (laterMs < LEASE_MS) expect(counted).toBe(5)
        if (laterMs >= 2 * LEASE_MS) expect(counted).toBe(0)
      }),
    )
  })

  it('forgets exactly what came back', () => {
    const granted = withGrant(withGrant(NONE_GRANTED, 7, 1_010), 5, 1_110)
    expect(outstanding(withoutGrant(granted, 9))).toBe(3)
    expect(withoutGrant(granted, 7)).toMatchObject({ previous: 0, current: 5 })
  })

  it('leases nothing of a limit that holds less than two blocks, and never over half of it', () => {
    const most = 2 * LEASE_TOKENS_MIN
    expect(blockOf({ wanted: 5, most: most - 1, left: most - 1 })).toBeNull()
    expect(blockOf({ wanted: 1_000, most, left: most })).toBe(most / 2)
    expect(blockOf({ wanted: 1_000, most: 1_000, left: 9 })).toBe(5)
    expect(blockOf({ wanted: 1_000, most: 1_000, left: 0 })).toBe(0)
  })

  it('holds back what the limit refills in the life of a lease', () => {
    expect(leasedBurst({ capacity: 1_000, windowMs: 1_000, burst: 1_000 })).toBe(900)
    expect(leasedBurst({ capacity: 1_000, windowMs: 100, burst: 1_000 })).toBe(0)
  })
})
