import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  concurrency,
  HOLDERS_MAX,
  type HoldsState,
} from '../../../shared/core/algorithms/concurrency.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

const NOON_US = 1_793_448_000_000_000
const HOLD_US = 60_000_000
const BOOT = { startUs: 0, recovering: false }

function at(state: HoldsState | null, nowUs: number, capacity = 10) {
  const limit = aRegionLimit({ algorithm: 'concurrency', capacity, windowMs: HOLD_US / 1_000 })
  return concurrency.settle(state, { limit, share: null, boot: BOOT, nowUs })
}

type Settled = ReturnType<typeof at>

function acquired(settled: Settled, cost: number, holder: string): Settled | null {
  const passes = concurrency.holds?.(settled, holder) === true || cost <= settled.remaining
  return passes ? concurrency.take(settled, cost, holder) : null
}

/** Who holds what, as a list of promises. */
class Model {
  nowUs = NOON_US
  readonly #holds = new Map<string, { readonly cost: number; readonly endUs: number }>()

  advance(us: number): void {
    this.nowUs += us
    for (const [id, { endUs }] of this.#holds) if (endUs <= this.nowUs) this.#holds.delete(id)
  }

  held(): number {
    return [...this.#holds.values()].reduce((sum, { cost }) => sum + cost, 0)
  }

  acquire(holder: string, cost: number): boolean {
    if (this.#holds.has(holder)) return true
    if (this.held() + cost > 10) return false
    this.#holds.set(holder, { cost, endUs: this.nowUs + HOLD_US })
    return true
  }

  release(holder: string): boolean {
    return this.#holds.delete(holder)
  }
}

/** Does the same to both and compares; gives the state that is stored then. */
function stepOnce(
  state: HoldsState | null,
  model: Model,
  step: { readonly holder: string; readonly cost: number; readonly releases: boolean },
): HoldsState | null {
  const { holder, cost, releases } = step
  const settled = at(state, model.nowUs)
  expect(settled.remaining).toBe(10 - model.held())
  const after = releases
    ? (concurrency.release?.(settled, holder) ?? null)
    : acquired(settled, cost, holder)
  expect(after !== null).toBe(releases ? model.release(holder) : model.acquire(holder, cost))
  return after === null ? state : concurrency.store(after)
}

describe('a concurrency limit', () => {
  it('holds exactly what was acquired and neither released nor over its longest hold', () => {
    const step = fc.record({
      us: fc.nat({ max: 20_000_000 }),
      holder: fc.nat({ max: 9 }).map(String),
      cost: fc.integer({ min: 1, max: 3 }),
      releases: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (history) => {
        const model = new Model()
        let state: HoldsState | null = null
        for (const step of history) {
          model.advance(step.us)
          state = stepOnce(state, model, step)
        }
      }),
    )
  })

  it('gives the hold of a repeated request back only by the check that acquired it', () => {
    const first = concurrency.store(concurrency.take(at(null, NOON_US), 4, 'a'))
    const again = concurrency.take(at(first, NOON_US + 5), 4, 'a')
    expect(again.remaining).toBe(6)
    const given = { cost: 4, holder: 'a' }
    expect(concurrency.giveBack(again, { ...given, atUs: NOON_US + 5 })).toBeNull()
    expect(concurrency.giveBack(again, { ...given, atUs: NOON_US })?.remaining).toBe(10)
  })

  it('does not shrink below what is held, and is blind for the longest hold after a boot', () => {
    const state = concurrency.store(concurrency.take(at(null, NOON_US), 6, 'a'))
    const half = { home: POOL_UNITS / 2, borrowed: 0, expUs: 0 }
    expect(concurrency.resize(at(state, NOON_US + 1), half, true)).toBeNull()
    expect(concurrency.resize(at(state, NOON_US + HOLD_US), half, true)).not.toBeNull()
    const limit = aRegionLimit({ algorithm: 'concurrency', windowMs: HOLD_US / 1_000 })
    const boot = { startUs: NOON_US, recovering: false }
    const settledAt = (nowUs: number) =>
      concurrency.settle(null, { limit, share: null, boot, nowUs })
    expect(settledAt(NOON_US + HOLD_US - 1).remaining).toBe(0)
    expect(settledAt(NOON_US + HOLD_US).remaining).toBe(10)
  })

  it('keeps a bounded number of holders', () => {
    let state: HoldsState | null = null
    for (let holder = 0; holder < HOLDERS_MAX; holder++) {
      const settled = at(state, NOON_US + holder, 1_000_000)
      state = concurrency.store(concurrency.take(settled, 1, String(holder)))
    }
    expect(at(state, NOON_US + HOLDERS_MAX, 1_000_000).remaining).toBe(0)
  })

  it('outlives a shorter longest hold, as it was allowed to', () => {
    const state = concurrency.store(concurrency.take(at(null, NOON_US), 6, 'a'))
    const limit = aRegionLimit({ algorithm: 'concurrency', windowMs: 1_000, version: 2 })
    const nowUs = NOON_US + HOLD_US - 1
    expect(concurrency.settle(state, { limit, share: null, boot: BOOT, nowUs }).remaining).toBe(4)
  })
})
