import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { splitBase } from '../../../shared/core/base-split.ts'
import { lowMark, tokensToAsk, WANT_AIM_MS } from '../../../shared/core/stock/asking.ts'
import { allot, floorsOf, type Tokens } from '../../../shared/core/stock/pool.ts'
import { instantToOpen, isLongWindow, windowAt } from '../../../shared/core/stock/stock-limit.ts'

const DAY_MS = 86_400_000
const total = (tokens: Tokens): number => Object.values(tokens).reduce((all, one) => all + one, 0)

describe('the pool of a long window', () => {
  it('never gives more than the capacity, floors included, in any order of requests', () => {
    const request = fc.record({
      region: fc.constantFrom('a', 'b', 'c', 'new'),
      want: fc.integer({ min: 0, max: 1_000 }),
    })
    const shape = fc.record({
      capacity: fc.integer({ min: 1, max: 5_000 }),
      floorPercent: fc.integer({ min: 0, max: 100 }),
      requests: fc.array(request, { maxLength: 60 }),
    })
    fc.assert(
      fc.property(shape, ({ capacity, floorPercent, requests }) => {
        const base = splitBase({ a: 5, b: 3, c: 2 }, capacity)
        const floors = floorsOf({ capacity, floorPercent, base })
        const allotted: Record<string, number> = {}
        for (const ask of requests) {
          const { from, to } = allot({ capacity, floors, allotted }, ask)
          expect([from, to >= from]).toEqual([allotted[ask.region] ?? 0, true])
          allotted[ask.region] = to
          expect(total(floors) + total(allotted)).toBeLessThanOrEqual(capacity)
        }
      }),
    )
  })

  it('answers a question that is asked again as before, and any other with more', () => {
    const pool = { capacity: 100, floors: {}, allotted: { a: 30, b: 5 } }
    const asked = { a: { question: 'one', from: 20 } }
    expect(allot({ ...pool, asked }, { region: 'a', want: 5, question: 'one' })).toEqual({
      from: 20,
      to: 30,
    })
    for (const other of [
      { region: 'a', question: 'two' },
      { region: 'a' },
      { region: 'b', question: 'one' },
    ]) {
      const { from, to } = allot({ ...pool, asked }, { want: 5, ...other })
      expect([from, to - from]).toEqual([other.region === 'a' ? 30 : 5, 5])
    }
  })

  it('is given out whole to the one region that asks', () => {
    const floors = { a: 1, b: 1 }
    const allotted = { a: 0 }
    let requests = 0
    for (let to = -1; to !== allotted.a; requests += 1) {
      to = allotted.a
      allotted.a = allot({ capacity: 1_000, floors, allotted }, { region: 'a', want: 40 }).to
    }
    expect(allotted.a).toBe(998)
    expect(requests).toBeLessThan(60)
  })

  it('leaves something to the others while one region asks for all', () => {
    const pool = { capacity: 1_000, floors: { a: 10, b: 10 }, allotted: {} }
    expect(allot(pool, { region: 'a', want: 1_000_000 })).toEqual({ from: 0, to: 245 })
  })

  it('gives a region that is new to the plane its part of what is left', () => {
    const pool = { capacity: 10, floors: { a: 2, b: 2 }, allotted: { a: 3 } }
    expect(allot(pool, { region: 'c', want: 1 }).to).toBe(1)
  })

  it('gives nothing once the capacity was lowered below what is out', () => {
    const pool = { capacity: 10, floors: { a: 5, b: 5 }, allotted: { a: 30 } }
    expect(allot(pool, { region: 'b', want: 5 })).toEqual({ from: 0, to: 0 })
  })
})

describe('the floors of a long window', () => {
  // S17: a tiny limit is usable at once wherever a region has a token of it.
  it('are at least one token for each region whose base has one', () => {
    const base = splitBase({ a: 1, b: 1, c: 1 }, 5)
    expect(floorsOf({ capacity: 5, floorPercent: 2, base })).toEqual({ a: 1, b: 1, c: 1 })
  })

  it('are the whole base where the operator says so, and nothing at zero', () => {
    const base = splitBase({ a: 60, b: 40 }, 100)
    expect(floorsOf({ capacity: 100, floorPercent: 100, base })).toEqual({ a: 60, b: 40 })
    expect(floorsOf({ capacity: 100, floorPercent: 0, base })).toEqual({ a: 0, b: 0 })
  })
})

describe('a region asks for', () => {
  it('as much as is used up in a minute, growing by steps', () => {
    expect(tokensToAsk(null, 0)).toBe(1)
    expect(tokensToAsk({ atMs: 0, tokens: 10 }, WANT_AIM_MS)).toBe(10)
    expect(tokensToAsk({ atMs: 0, tokens: 10 }, 100)).toBe(80)
    expect(tokensToAsk({ atMs: 0, tokens: 10 }, 20 * WANT_AIM_MS)).toBe(2)
  })

  it('more when a fifth is left, or never when nothing was given', () => {
    expect(lowMark({ from: 10, to: 60 })).toBe(10)
    expect(lowMark({ from: 10, to: 10 })).toBeNull()
  })
})

describe('a long window', () => {
  it.each([
    [{ windowMs: DAY_MS }, true],
    [{ windowMs: DAY_MS - 1 }, false],
    [{ windowMs: 0, calendar: { unit: 'day', timeZone: 'Europe/London' } as const }, true],
    [{ windowMs: 0, calendar: { unit: 'hour', timeZone: 'UTC' } as const }, false],
  ])('%o: %s', (rule, expected) => {
    expect(isLongWindow(rule)).toBe(expected)
  })

  // B116
  it('of thirty days is one window to its last millisecond', () => {
    const rule = { windowMs: 30 * DAY_MS }
    const { startMs, endMs } = windowAt(rule, 1_800_000_000_000)
    expect(endMs - startMs).toBe(30 * DAY_MS)
    expect(windowAt(rule, endMs - 1).startMs).toBe(startMs)
    expect(windowAt(rule, endMs).startMs).toBe(endMs)
  })

  it('is opened at once where none is, and the next a day before it begins, or half its length', () => {
    const month = { startMs: 0, endMs: 30 * DAY_MS, floor: 1 }
    const day = { startMs: 0, endMs: DAY_MS, floor: 1 }
    expect(instantToOpen([], 5)).toBe(5)
    expect(instantToOpen([month], 29 * DAY_MS - 1)).toBeNull()
    expect(instantToOpen([month], 29 * DAY_MS)).toBe(30 * DAY_MS)
    expect(instantToOpen([day], DAY_MS / 2)).toBe(DAY_MS)
    const next = { startMs: DAY_MS, endMs: 2 * DAY_MS, floor: 1 }
    expect(instantToOpen([day, next], DAY_MS - 1)).toBeNull()
  })
})
