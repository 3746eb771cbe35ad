import { describe, expect, it } from 'vitest'
import { LENDER_WAIT_MS, LOAN_TTL_MS } from '../../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../../shared/core/ledger/record.ts'
import { step } from '../../../shared/core/ledger/step.ts'
import type { LedgerEffect } from '../../../shared/core/ledger/types.ts'
import { shareOf } from '../../../shared/core/ledger/views.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, Bench, KEY } from './bench.ts'

const kinds = (effects: readonly LedgerEffect[]): string[] => effects.map((effect) => effect.kind)
const total = (bench: Bench): number =>
  [...bench.sites.keys()].reduce((sum, region) => {
    const share = shareOf(bench.state(region), KEY, bench.nowMs)
    return sum + (share === null ? 0 : share.home + share.borrowed)
  }, 0)

describe('a loan', () => {
  it('shrinks the lender’s share before anything tells of it, its term before that', () => {
    const bench = new Bench()
    bench.load('a', 10)
    bench.load('b', 900, 400)
    const { state, effects } = step(
      bench.state('a'),
      { kind: 'record', record: bench.send('b') },
      bench.nowMs,
    )
    expect(kinds(effects)).toEqual(['write-pairs', 'write-shares'])
    expect(() => buildRecord(state, [], bench.nowMs)).toThrow('confirmed')
    const outcomes = new Map([[KEY, 'written' as const]])
    const written = step(state, { kind: 'shares-written', outcomes }, bench.nowMs)
    expect(written.effects).toEqual([{ kind: 'publish', urgent: true }])
    const { record } = buildRecord(written.state, [], bench.nowMs)
    expect(record.rows[0]?.lent['b']?.[1]).toBeGreaterThan(400_000)
  })

  it('grows the borrower’s share on receipt, until its lease ends', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    expect(lent).toBeGreaterThan(400_000)
    expect(bench.share('b')).toMatchObject({ home: 400_000, borrowed: lent, pinned: true })
    expect(bench.share('b')?.expiresAtMs).toBeLessThanOrEqual(bench.nowMs + LOAN_TTL_MS)
    expect(total(bench)).toBe(POOL_UNITS)
  })

  it('has its deadline written anew when the store’s clock is set', () => {
    const bench = new Bench()
    bench.lendToB()
    const reading = { samples: [], noticed: [], missing: [] }
    const [slewed, setBack] = [20, -11_000].map((storeOffsetMs) =>
      bench.feed('b', { kind: 'measured', storeOffsetMs, ...reading }),
    )
    expect(slewed).toEqual([])
    expect(bench.share('b')?.expiresAtMs).toBeGreaterThan(bench.nowMs)
    expect(setBack).toMatchObject([{ kind: 'write-shares', writes: [{ id: KEY }] }])
  })

  it('that the store refuses was never made, and half as much is offered at once', () => {
    const bench = new Bench([
      aLimit({ algorithm: 'fixed_window', capacity: 60_000, windowMs: 60_000 }),
    ])
    bench.isOccupied = true
    bench.load('a', 10)
    bench.load('b', 900, 400)
    bench.effects.length = 0
    bench.hear('a', bench.send('b'))
    const shrinks = bench.effects.flatMap((effect) =>
      effect.kind === 'write-shares' ? effect.writes.map((write) => write.home) : [],
    )
    expect(shrinks.length).toBeGreaterThan(3)
    expect(shrinks.length).toBeLessThan(15)
    expect([...shrinks].sort((one, other) => one - other)).toEqual(shrinks)
    expect(bench.lent('a', 'b')).toBe(0)
    expect(bench.send('a').rows[0]?.lent).toEqual({})
    // Nothing more is offered until the window is over; then it is.
    bench.isOccupied = false
    bench.tick('a')
    expect(bench.lent('a', 'b')).toBe(0)
    bench.nowMs += 60_000
    for (let round = 0; round < 3; round++) {
      bench.load('a', 10)
      bench.load('b', 900, 400)
      bench.exchange()
    }
    expect(bench.lent('a', 'b')).toBeGreaterThan(0)
  })

  it('comes back when the lender needs it and the borrower does not', () => {
    const bench = new Bench()
    bench.lendToB()
    for (let round = 0; round < 8; round++) {
      bench.load('b', 100)
      bench.load('a', 800, 200)
      bench.exchange()
    }
    expect(bench.lent('a', 'b')).toBeLessThan(250_000)
    expect(total(bench)).toBe(POOL_UNITS)
  })

  it('is only made to a peer that is known to hear this region', () => {
    const bench = new Bench()
    for (let half = 0; half < 12; half++) {
      // Region a hears b, which hears nothing of a.
      bench.tick('a')
      bench.send('a')
      bench.load('b', 100)
      bench.load('a', 10)
      bench.hear('a', bench.send('b'))
    }
    bench.load('b', 900, 400)
    bench.hear('a', bench.send('b'))
    bench.tick('a')
    expect(bench.lent('a', 'b')).toBe(0)
    bench.hear('b', bench.send('a'))
    bench.hear('a', bench.send('b'))
    expect(bench.lent('a', 'b')).toBeGreaterThan(400_000)
  })

  it('that nobody needs any more goes home, and the key is forgotten', () => {
    const bench = new Bench()
    bench.lendToB()
    for (let second = 0; second < 120; second++) {
      for (const region of ['a', 'b']) {
        if (bench.state(region).keys.has(KEY)) bench.load(region, 0)
      }
      bench.nowMs += 500
      bench.exchange()
    }
    expect([bench.state('a').keys.size, bench.state('b').keys.size]).toEqual([0, 0])
    expect([bench.site('a').rows.size, bench.site('b').rows.size]).toEqual([0, 0])
  })
})

describe('a lease', () => {
  it('is dated by the sending of the record that was acknowledged', () => {
    const bench = new Bench()
    bench.lendToB()
    const before = shareOf(bench.state('b'), KEY, bench.nowMs)?.expiresAtMs
    // Acknowledged late: the records of b that a knows are as old as before.
    bench.nowMs += 3_000
    bench.hear('b', bench.send('a'))
    expect(shareOf(bench.state('b'), KEY, bench.nowMs)?.expiresAtMs).toBe(before)
  })

  it('that ran out is over for good, whatever is acknowledged later', () => {
    const bench = new Bench()
    bench.lendToB()
    bench.hear('a', bench.send('b'))
    const late = bench.send('a')
    bench.nowMs += LOAN_TTL_MS
    bench.tick('b')
    expect(bench.share('b')).toMatchObject({ home: 400_000, borrowed: 0 })
    bench.hear('b', late)
    bench.hear('b', bench.send('a'))
    expect(shareOf(bench.state('b'), KEY, bench.nowMs)?.borrowed).toBe(0)
    expect(bench.state('b').pairs.get('a')?.borrow.dead).toBe(true)
  })

  it('that the borrower says is over gives the lender its units at once', () => {
    const bench = new Bench()
    bench.lendToB()
    bench.nowMs += LOAN_TTL_MS
    bench.tick('b')
    const term = bench.state('a').pairs.get('b')?.lend.term ?? 0
    bench.hear('a', bench.send('b'))
    expect(bench.state('a').pairs.get('b')?.lend.term).toBeGreaterThan(term)
    // With the same record b asks again; what a lends now is of the next term.
    const share = shareOf(bench.state('a'), KEY, bench.nowMs)
    expect((share?.home ?? 0) + bench.lent('a', 'b')).toBe(600_000)
  })

  it('of a silent borrower ends for the lender one drift margin later, not sooner', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    bench.nowMs += LENDER_WAIT_MS - 1
    bench.tick('a')
    expect(bench.lent('a', 'b')).toBe(lent)
    bench.nowMs += 2
    bench.tick('a')
    expect(bench.lent('a', 'b')).toBe(0)
    expect(bench.share('a')).toMatchObject({ home: 600_000, pinned: false })
  })

  it('of a window leaves its units unused until the window is over for every clock', () => {
    const bench = new Bench([
      aLimit({ algorithm: 'fixed_window', capacity: 60_000, windowMs: 60_000 }),
    ])
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    expect(lent).toBeGreaterThan(0)
    bench.nowMs += LENDER_WAIT_MS + 1
    bench.tick('a')
    expect(bench.share('a')).toMatchObject({ home: 600_000 - lent, pinned: true })
    bench.nowMs = Math.ceil(bench.nowMs / 60_000) * 60_000 + 99
    bench.tick('a')
    expect(bench.share('a')?.home).toBe(600_000 - lent)
    bench.nowMs += 1
    bench.tick('a')
    expect(bench.share('a')).toMatchObject({ home: 600_000, pinned: false })
  })
})

describe('lending that an operator has stopped', () => {
  const freeze = (bench: Bench, lending: 'free' | 'frozen' | 'none'): void => {
    bench.setLimits([aLimit({ lending })])
    for (const region of bench.sites.keys()) bench.giveLimits(region)
  }

  it('while frozen makes no loan however short a region is, and begins again after', () => {
    const bench = new Bench()
    freeze(bench, 'frozen')
    bench.lendToB()
    expect(bench.lent('a', 'b')).toBe(0)
    freeze(bench, 'free')
    bench.lendToB()
    expect(bench.lent('a', 'b')).toBeGreaterThan(400_000)
  })

  it('while frozen keeps the loans that there are, whatever the demand becomes', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    freeze(bench, 'frozen')
    for (let round = 0; round < 50; round++) {
      bench.nowMs += 1_000
      bench.load('a', 900, 400)
      bench.load('b', 1)
      bench.exchange()
      expect(total(bench)).toBeLessThanOrEqual(POOL_UNITS)
    }
    expect(bench.share('b')?.borrowed).toBe(lent)
  })

  it('while pinned brings every loan home, so that each region has its base and no more', () => {
    const bench = new Bench()
    bench.lendToB()
    expect(bench.share('b')?.borrowed).toBeGreaterThan(400_000)
    freeze(bench, 'none')
    for (let round = 0; round < 5; round++) {
      bench.nowMs += 1_000
      bench.load('b', 900, 400)
      bench.exchange()
      expect(total(bench)).toBeLessThanOrEqual(POOL_UNITS)
    }
    expect(bench.share('a')?.home ?? 600_000).toBe(600_000)
    expect(bench.share('b') ?? { home: 400_000, borrowed: 0 }).toMatchObject({
      home: 400_000,
      borrowed: 0,
    })
  })
})
