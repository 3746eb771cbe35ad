import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { splitBase } from '../../../shared/core/base-split.ts'
import { LENDER_WAIT_MS } from '../../../shared/core/ledger/constants.ts'
import { drainEnd } from '../../../shared/core/ledger/homes.ts'
import type { LedgerLimit } from '../../../shared/core/ledger/types.ts'
import { aLimit, Bench, KEY } from './bench.ts'

const split = (a: number, b: number) => splitBase({ a, b }, 1_000)
const opened = (from: LedgerLimit, a: number, b: number): LedgerLimit => ({
  ...from,
  epoch: from.epoch + 1,
  base: split(a, b),
  previousBase: from.base,
})
const home = (bench: Bench, region: string): number | undefined => bench.site(region).homes.get(1)

describe('a new base split', () => {
  it('shrinks the donor at once and grows the grower when it heard so', () => {
    const bench = new Bench()
    bench.setLimits([opened(aLimit(), 20, 80)])
    bench.giveLimits('b')
    expect(home(bench, 'b')).toBe(400_000)
    bench.giveLimits('a')
    expect(home(bench, 'a')).toBe(200_000)
    bench.hear('b', bench.send('a'))
    expect(home(bench, 'b')).toBe(400_000)
    bench.tick('a')
    const record = bench.send('a')
    expect(record.adopted).toEqual({ 1: 1 })
    bench.hear('b', record)
    expect(home(bench, 'b')).toBe(800_000)
  })

  it('grows only what the store knows at its smaller size, so that no bucket is born with a donor’s tokens', () => {
    const bench = new Bench()
    const second = opened(aLimit({ id: 2, base: split(100, 0) }), 50, 50)
    bench.setLimits([aLimit(), second])
    bench.giveLimits('a')
    bench.tick('a')
    const adopted = bench.send('a')
    // The grower hears of the adoption before it hears of the limit.
    bench.hear('b', adopted)
    bench.giveLimits('b')
    expect(bench.site('b').homes.get(2)).toBe(0)
    // Nor when that write is in doubt and repeated.
    bench.effects.length = 0
    bench.start('b', 'kept', true)
    const written = bench.effects.flatMap((effect) =>
      effect.kind === 'write-homes' ? [effect.homes.get(2)] : [],
    )
    expect(written[0]).toBe(0)
    bench.tick('a')
    bench.hear('b', bench.send('a'))
    expect(bench.site('b').homes.get(2)).toBe(500_000)
  })

  it('is adopted at once where nothing is given up', () => {
    const bench = new Bench()
    bench.setLimits([opened(aLimit(), 20, 80)])
    bench.giveLimits('b')
    bench.tick('b')
    expect(bench.send('b').adopted).toEqual({ 1: 1 })
  })

  it('is whole once the epoch is closed', () => {
    const bench = new Bench()
    bench.setLimits([{ ...opened(aLimit(), 20, 80), previousBase: null }])
    bench.giveLimits('b')
    expect(home(bench, 'b')).toBe(800_000)
    bench.tick('b')
    expect(bench.send('b').adopted).toEqual({})
  })

  it('of windows is adopted only when the window in which the donor shrank is over', () => {
    const limit = aLimit({ algorithm: 'fixed_window', windowMs: 60_000 })
    const bench = new Bench([limit])
    bench.setLimits([opened(limit, 20, 80)])
    bench.giveLimits('a')
    expect(home(bench, 'a')).toBe(200_000)
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({})
    bench.nowMs = Math.ceil(bench.nowMs / 60_000) * 60_000 + 99
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({})
    bench.nowMs += 1
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({ 1: 1 })
  })

  it('waits for what the donor lent, which borrowers give back', () => {
    const bench = new Bench()
    bench.lendToB()
    expect(bench.lent('a', 'b')).toBeGreaterThan(300_000)
    bench.setLimits([opened(aLimit(), 20, 80)])
    bench.giveLimits('a')
    // More is lent than there is left: the donor uses nothing of its own.
    expect(bench.share('a')).toMatchObject({ home: 0 })
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({})
    bench.giveLimits('b')
    bench.exchange()
    bench.exchange()
    expect(bench.send('a').adopted).toEqual({ 1: 1 })
    expect(home(bench, 'b')).toBe(800_000)
    // From then on it lends of its smaller base, never of its floor.
    expect(bench.lent('a', 'b')).toBeLessThanOrEqual(196_000)
    expect(bench.share('a')?.home).toBe(200_000 - bench.lent('a', 'b'))
  })

  it('is adopted only with room for the donor’s floor beside its loans', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    // Exactly as much base is left as is lent.
    const left = { a: lent, b: 1_000_000 - lent }
    bench.setLimits([{ ...opened(aLimit(), 1, 1), base: left }])
    bench.giveLimits('a')
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({})
  })

  it('is not adopted while the region recovers from amnesia', () => {
    const bench = new Bench()
    bench.setLimits([opened(aLimit(), 20, 80)])
    bench.start('a', 'lost')
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({})
    bench.nowMs += LENDER_WAIT_MS
    bench.tick('a')
    bench.tick('a')
    expect(bench.send('a').adopted).toEqual({ 1: 1 })
    expect(home(bench, 'a')).toBe(200_000)
  })

  it('known to nobody yet does not come back with an older revision of the limits', () => {
    const bench = new Bench()
    bench.setLimits([opened(aLimit(), 20, 80)])
    bench.giveLimits('a')
    const limits = new Map([[1, aLimit()]])
    bench.feed('a', {
      kind: 'limits',
      policyRevision: 1,
      limits,
      members: ['a', 'b'],
      formerMembers: [],
      leastIncarnations: {},
    })
    expect(home(bench, 'a')).toBe(200_000)
  })
})

describe('a limit that is gone or was reset', () => {
  it.each([
    ['removed', []],
    ['reset', [aLimit({ usageEpoch: 1 })]],
  ])('and %s takes its keys along', (_name, limits) => {
    const bench = new Bench()
    bench.lendToB()
    bench.setLimits(limits)
    bench.giveLimits('a')
    expect(bench.state('a').keys.size).toBe(0)
    expect(bench.share('a')).toMatchObject({ id: KEY, row: null })
    expect(bench.site('a').rows.size).toBe(0)
  })
})

describe('a drain', () => {
  it('ends after the window of every clock within the skew, and not in the same', () => {
    const skew = fc.integer({ min: -50, max: 50 })
    fc.assert(
      fc.property(
        fc.nat({ max: 1e9 }),
        skew,
        fc.constantFrom(1_000, 60_000),
        (at, other, windowMs) => {
          const limit = aLimit({ algorithm: 'fixed_window', windowMs })
          const end = drainEnd(limit, at) ?? 0
          // When the units are used again, no clock that spent them labels this instant as it did then.
          const label = Math.floor((at + other) / windowMs)
          expect(Math.floor((end + other) / windowMs)).toBeGreaterThan(label)
          expect(Math.floor(end / windowMs)).toBeGreaterThan(label)
          expect(end - at).toBeLessThanOrEqual(windowMs + 200)
        },
      ),
    )
    expect(drainEnd(aLimit(), 5)).toBeNull()
  })

  it('is at once for a long window, whose tokens never belong to another region', () => {
    const long = { ...aLimit(), algorithm: 'fixed_window', windowMs: 86_400_000 } as const
    expect(drainEnd(long, 5)).toBeNull()
    const calendar = { unit: 'day', timeZone: 'UTC' } as const
    expect(drainEnd({ ...long, windowMs: 82_800_000, calendar }, 5)).toBeNull()
    expect(drainEnd({ ...long, windowMs: 86_399_999 }, 5)).not.toBeNull()
  })
})
