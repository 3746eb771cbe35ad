import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  EDGE_US,
  fixedWindow,
  type WindowState,
} from '../../../shared/core/algorithms/fixed-window.ts'
import { stampLimit } from '../../../shared/core/algorithms/stamp-limit.ts'
import type { RegionLimit } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { PLAIN_LIMIT } from '../../support/region-policy.ts'

const BOOT = { startUs: 0, recovering: false }
const WINDOW_US = 60_000_000
const NOON_US = 1_793_448_000_000_000

function limit(capacity: number, home = POOL_UNITS): RegionLimit {
  const spec = { ...PLAIN_LIMIT, id: 1, name: 'limit', usageEpoch: 0, home }
  const change = { version: 1, nowUs: NOON_US, boot: BOOT }
  return stampLimit(
    undefined,
    {
      ...spec,
      algorithm: 'fixed_window',
      capacity,
      windowMs: WINDOW_US / 1_000,
      burst: capacity,
    },
    change,
  )
}

function settle(state: WindowState | null, of: RegionLimit, nowUs: number) {
  return fixedWindow.settle(state, { limit: of, share: null, boot: BOOT, nowUs })
}

describe('a fixed window', () => {
  it('admits at most its share in each window, and keeps only the last window beside it', () => {
    const steps = fc.array(
      fc.record({
        us: fc.integer({ min: 0, max: 2 * WINDOW_US }),
        cost: fc.integer({ min: 1, max: 9 }),
      }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 30 }), (history, capacity) => {
        const of = limit(capacity)
        const admitted = new Map<number, number>()
        let state: WindowState | null = null
        let nowUs = NOON_US
        for (const { us, cost } of history) {
          nowUs += us
          const settled = settle(state, of, nowUs)
          const window = Math.floor(nowUs / WINDOW_US)
          expect(settled.previous).toBe(admitted.get(window - 1) ?? 0)
          if (cost > settled.remaining) continue
          state = fixedWindow.store(fixedWindow.take(settled, cost))
          admitted.set(window, (admitted.get(window) ?? 0) + cost)
        }
        expect(Math.max(0, ...admitted.values())).toBeLessThanOrEqual(capacity)
      }),
    )
  })

  it('contains its instant, and says when it ends', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10 * WINDOW_US }), (us) => {
        const settled = settle(null, limit(10), NOON_US + us)
        expect(settled.startUs).toBeLessThanOrEqual(NOON_US + us)
        expect(settled.startUs + WINDOW_US).toBeGreaterThan(NOON_US + us)
        expect(fixedWindow.resetMs(settled)).toBe(
          Math.ceil((settled.startUs + WINDOW_US - NOON_US - us) / 1_000),
        )
      }),
    )
  })

  it('may not shrink below what it admitted, nor, just after the edge, below the window before', () => {
    const of = limit(10)
    const state = fixedWindow.store(fixedWindow.take(settle(null, of, NOON_US), 6))
    const half = { home: POOL_UNITS / 2, borrowed: 0, expUs: 0 }
    const shrunkAt = (us: number) => fixedWindow.resize(settle(state, of, NOON_US + us), half, true)
    expect(shrunkAt(1_000)).toBeNull()
    expect(shrunkAt(WINDOW_US + EDGE_US - 1)).toBeNull()
    expect(shrunkAt(WINDOW_US + EDGE_US)).not.toBeNull()
    expect(fixedWindow.resize(settle(state, of, NOON_US), half, false)).not.toBeNull()
  })

  it('takes nothing back for a window that has ended, and never more than it admitted', () => {
    const of = limit(10)
    const state = fixedWindow.store(fixedWindow.take(settle(null, of, NOON_US), 6))
    const later = settle(state, of, NOON_US + WINDOW_US)
    expect(fixedWindow.giveBack(later, { cost: 3, atUs: NOON_US })).toBeNull()
    const now = settle(state, of, NOON_US + 1_000)
    expect(fixedWindow.giveBack(now, { cost: 3, atUs: NOON_US })?.remaining).toBe(7)
    expect(fixedWindow.giveBack(now, { cost: 99, atUs: NOON_US })?.remaining).toBe(10)
  })
})
