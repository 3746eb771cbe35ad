import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Algorithm as Rule, Settled } from '../../../shared/core/algorithms/algorithm.ts'
import type { EntriesState, SettledEntries } from '../../../shared/core/algorithms/entries.ts'
import { slidingCounter, weighted } from '../../../shared/core/algorithms/sliding-counter.ts'
import { LOG_ENTRIES_MAX, slidingLog } from '../../../shared/core/algorithms/sliding-log.ts'
import { slidingWindow } from '../../../shared/core/algorithms/sliding-window.ts'
import type { RegionLimit } from '../../../shared/core/policy.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

/** Each sliding algorithm against the plain definition of what it promises, over random traffic. */

const NOON_US = 1_793_448_000_000_000
const WINDOW_US = 1_000_000
const BOOT = { startUs: 0, recovering: false }

function limitOf(capacity: number, windowMs = WINDOW_US / 1_000): RegionLimit {
  return aRegionLimit({ algorithm: 'sliding_log', capacity, windowMs })
}

interface Admission {
  readonly atUs: number
  readonly cost: number
}

const traffic = fc.array(
  fc.record({ us: fc.nat({ max: 400_000 }), cost: fc.integer({ min: 1, max: 4 }) }),
  { minLength: 1, maxLength: 120 },
)

/** Drives an algorithm; `judge` sees each step before it is taken. */
function drive<State, S extends Settled>(
  rule: Rule<State, S>,
  limit: RegionLimit,
  history: readonly { readonly us: number; readonly cost: number }[],
  judge: (settled: S, admitted: readonly Admission[], nowUs: number) => void,
): readonly Admission[] {
  const admitted: Admission[] = []
  let state: State | null = null
  let nowUs = NOON_US
  for (const { us, cost } of history) {
    nowUs += us
    const settled: S = rule.settle(state, { limit, share: null, boot: BOOT, nowUs })
    judge(settled, admitted, nowUs)
    if (cost > settled.remaining) continue
    state = rule.store(rule.take(settled, cost))
    admitted.push({ atUs: nowUs, cost })
  }
  return admitted
}

/** Tokens admitted in the window that ends at, and includes, `nowUs`. */
function inWindow(admitted: readonly Admission[], nowUs: number): number {
  return admitted
    .filter(({ atUs }) => nowUs - atUs < WINDOW_US)
    .reduce((sum, { cost }) => sum + cost, 0)
}

describe('a sliding log', () => {
  it('counts exactly the tokens of the window that ends now', () => {
    fc.assert(
      fc.property(traffic, fc.integer({ min: 1, max: 20 }), (history, capacity) => {
        drive(slidingLog, limitOf(capacity), history, (settled, admitted, nowUs) => {
          expect(settled.remaining).toBe(capacity - inWindow(admitted, nowUs))
        })
      }),
    )
  })

  it('says the first microsecond at which a denied cost passes', () => {
    fc.assert(
      fc.property(traffic, fc.integer({ min: 1, max: 9 }), (history, capacity) => {
        drive(slidingLog, limitOf(capacity), history, (settled, admitted, nowUs) => {
          const waitMs = slidingLog.waitMs(settled, capacity) ?? 0
          const full = inWindow(admitted, nowUs + waitMs * 1_000)
          expect(full).toBe(0)
          if (waitMs > 0)
            expect(inWindow(admitted, nowUs + (waitMs - 1) * 1_000)).toBeGreaterThan(0)
        })
      }),
    )
  })

  it('keeps a bounded number of entries, and never counts less than was admitted', () => {
    const history = Array.from({ length: 3_000 }, (_, index) => ({ us: 97 + (index % 5), cost: 1 }))
    const capacity = 1_000_000
    drive(slidingLog, limitOf(capacity), history, (settled: SettledEntries, admitted, nowUs) => {
      expect(settled.entries.length).toBeLessThanOrEqual(LOG_ENTRIES_MAX)
      expect(settled.count).toBeGreaterThanOrEqual(inWindow(admitted, nowUs))
    })
  })

  it('gives back late by less than a hundredth of a window where it had to join entries', () => {
    const history = Array.from({ length: 1_000 }, () => ({ us: 100, cost: 1 }))
    let state: EntriesState | null = null
    const limit = limitOf(1_000_000)
    let nowUs = NOON_US
    for (const { us, cost } of history) {
      nowUs += us
      const circumstances = { limit, share: null, boot: BOOT, nowUs }
      state = slidingLog.store(slidingLog.take(slidingLog.settle(state, circumstances), cost))
    }
    for (const later of [905_000, 950_000, 999_000]) {
      const atUs = nowUs + later
      const settled = slidingLog.settle(state, { limit, share: null, boot: BOOT, nowUs: atUs })
      // One came each 100 us.
      const exact = 1_000 - Math.floor((later - 900_000) / 100)
      expect(settled.count).toBeGreaterThanOrEqual(exact)
      expect(settled.count).toBeLessThanOrEqual(exact + 100)
    }
  })
})

describe('a sliding window', () => {
  it('admits at most its capacity in any span of a window, and counts none for a twentieth more', () => {
    fc.assert(
      fc.property(traffic, fc.integer({ min: 1, max: 20 }), (history, capacity) => {
        const sub = WINDOW_US / 20
        const admitted = drive(
          slidingWindow,
          limitOf(capacity),
          history,
          (settled, past, nowUs) => {
            const used = capacity - settled.remaining
            expect(used).toBeGreaterThanOrEqual(inWindow(past, nowUs))
            expect(used).toBeLessThanOrEqual(
              inWindow(past, nowUs - sub + 1) + inLast(past, nowUs, sub),
            )
          },
        )
        for (const { atUs } of admitted) {
          expect(
            inWindow(
              admitted.filter((one) => one.atUs <= atUs),
              atUs,
            ),
          ).toBeLessThanOrEqual(capacity)
        }
      }),
    )
  })

  function inLast(admitted: readonly Admission[], nowUs: number, us: number): number {
    return admitted.filter(({ atUs }) => atUs > nowUs - us).reduce((sum, { cost }) => sum + cost, 0)
  }
})

describe('a sliding counter', () => {
  it('weighs the last window exactly, for every token count', () => {
    fc.assert(
      fc.property(
        fc.maxSafeInteger().map(Math.abs),
        fc.integer({ min: 1, max: 31_622_400_000_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (tokens, windowUs, part) => {
          const partUs = Math.floor(part * windowUs)
          const exact = (BigInt(tokens) * BigInt(partUs) + BigInt(windowUs) - 1n) / BigInt(windowUs)
          expect(BigInt(weighted(tokens, windowUs, partUs))).toBe(exact)
        },
      ),
    )
  })

  it('keeps its estimate, and so its wait, to the plain definition', () => {
    fc.assert(
      fc.property(traffic, fc.integer({ min: 1, max: 20 }), (history, capacity) => {
        const estimate = (admitted: readonly Admission[], nowUs: number): number => {
          const window = Math.floor(nowUs / WINDOW_US)
          const of = (id: number): number =>
            admitted
              .filter(({ atUs }) => Math.floor(atUs / WINDOW_US) === id)
              .reduce((sum, { cost }) => sum + cost, 0)
          const left = WINDOW_US - (nowUs % WINDOW_US)
          return of(window) + (of(window - 1) * left) / WINDOW_US
        }
        drive(slidingCounter, limitOf(capacity), history, (settled, admitted, nowUs) => {
          expect(settled.remaining).toBe(
            Math.max(0, Math.floor(capacity - estimate(admitted, nowUs) + 1e-9)),
          )
          const waitMs = slidingCounter.waitMs(settled, capacity) ?? 0
          expect(estimate(admitted, nowUs + waitMs * 1_000)).toBeLessThan(1e-9)
          if (waitMs > 1) {
            expect(estimate(admitted, nowUs + (waitMs - 1) * 1_000)).toBeGreaterThan(0)
          }
        })
      }),
    )
  })
})
