import { beforeEach, describe, expect, it } from 'vitest'
import { LocalLimits } from '../../../services/enforcer/local-limits.ts'
import type { CheckTarget } from '../../../shared/core/ports.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

const limit = aRegionLimit({ capacity: 1_000, burst: 1_000 })

let wallMs: number
beforeEach(() => {
  wallMs = 1_000_000
})

function enforcer(liveEnforcers = 1): LocalLimits {
  const clock = { wallMs: () => wallMs, monotonicMs: () => wallMs }
  return new LocalLimits({ clock, liveEnforcers: () => liveEnforcers })
}

const target = (counter = 'acme', change: Partial<typeof limit> = {}): CheckTarget => ({
  counter,
  limit: { ...limit, ...change },
})

function admitted(local: LocalLimits, count: number, one = target()): number {
  return Array.from({ length: count }, () => local.decide([one], 1)).filter(
    ([decision]) => decision?.allowed,
  ).length
}

describe('limits that an enforcer holds in memory', () => {
  it('B107: four enforcers admit no more together than their region may', () => {
    const four = Array.from({ length: 4 }, () => enforcer(4))
    expect(four.map((local) => admitted(local, 1_000))).toEqual([250, 250, 250, 250])
    wallMs += 1_000
    expect(four.map((local) => admitted(local, 1_000))).toEqual([250, 250, 250, 250])
  })

  it('are those of the region alone, not of all regions', () => {
    expect(admitted(enforcer(2), 1_000, target('acme', { home: POOL_UNITS / 2 }))).toBe(250)
  })

  it('B109: lock nobody out and open nothing again when the clock of the host is set back', () => {
    const local = enforcer()
    const ten = target('ten', { capacity: 10, burst: 10, windowMs: 10_000 })
    const check = (atMs: number, cost: number) => {
      wallMs = 100_000_000 + atMs
      return local.decide([ten], cost)[0]
    }
    check(0, 3)
    expect(check(-11_000, 1)).toMatchObject({ allowed: true, remaining: 6 })
    expect(check(0, 1)).toMatchObject({ allowed: true, remaining: 5 })
    expect(check(-3_600_000, 1)).toMatchObject({ allowed: true, remaining: 4 })
  })

  it('B110: give one burst at most when it is set forward, and are right again within a window of its return', () => {
    const local = enforcer()
    const ten = target('ten', { capacity: 10, burst: 10, windowMs: 10_000 })
    wallMs = 100_000_000
    expect(admitted(local, 11, ten)).toBe(10)
    wallMs += 3_600_000
    expect(admitted(local, 11, ten)).toBe(10)
    wallMs -= 3_600_000
    expect(admitted(local, 5, ten)).toBe(0)
    wallMs += 10_000
    expect(admitted(local, 11, ten)).toBe(10)
  })

  it('say what is left, and how long to wait', () => {
    const local = enforcer(4)
    admitted(local, 249)
    expect(local.decide([target()], 1)).toMatchObject([{ allowed: true, remaining: 0 }])
    expect(local.decide([target()], 1)).toMatchObject([
      { allowed: false, reason: 'limit', retryAfterMs: 4 },
    ])
  })

  it('take from all limits of a check or from none', () => {
    const local = enforcer()
    const small = target('small', { id: 2, capacity: 1, burst: 1 })
    expect(local.decide([target(), small], 1).every(({ allowed }) => allowed)).toBe(true)
    expect(local.decide([target(), small], 1).map(({ allowed }) => allowed)).toEqual([true, false])
    expect(local.decide([target()], 0)).toMatchObject([{ remaining: 999 }])
  })

  it('deny what memory cannot hold: a day, and concurrency', () => {
    const day = target('day', { algorithm: 'fixed_window', windowMs: 86_400_000 })
    const held = target('held', { algorithm: 'concurrency' })
    for (const one of [day, held]) {
      expect(enforcer().decide([one], 1)).toMatchObject([
        { allowed: false, reason: 'store_unavailable' },
      ])
    }
  })

  it('B088: are bounded, and an exhausted one that is asked for stays exhausted', () => {
    const local = enforcer()
    const exhausted = target('exhausted', { algorithm: 'fixed_window', windowMs: 3_600_000 })
    expect(admitted(local, 1_001, exhausted)).toBe(1_000)
    for (let key = 0; key < 60_000; key++) {
      local.decide([target(`key-${key}`)], 1)
      if (key % 1_000 === 0) expect(local.decide([exhausted], 1)[0]?.allowed).toBe(false)
    }
    expect(local.size).toBeLessThanOrEqual(20_000)
  })

  it('B073: are counted apart for policies with equal limits and one subject', () => {
    const local = enforcer()
    const three = { capacity: 3, burst: 3 }
    const counted = ['1.0:tenant=acme', '2.0:tenant=acme'].map((counter, index) =>
      admitted(local, 10, target(counter, { ...three, id: index + 1 })),
    )
    expect(counted).toEqual([3, 3])
  })

  it('begin anew when their numbers change', () => {
    const local = enforcer()
    admitted(local, 1_000)
    expect(
      admitted(local, 3_000, target('acme', { version: 2, capacity: 2_000, burst: 2_000 })),
    ).toBe(2_000)
  })
})
