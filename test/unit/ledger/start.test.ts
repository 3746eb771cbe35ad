import { describe, expect, it } from 'vitest'
import { LENDER_WAIT_MS, LOAN_TTL_MS } from '../../../shared/core/ledger/constants.ts'
import { createLedger } from '../../../shared/core/ledger/state.ts'
import { step } from '../../../shared/core/ledger/step.ts'
import { shareOf } from '../../../shared/core/ledger/views.ts'
import { aLimit, Bench, KEY } from './bench.ts'

const borrowed = (bench: Bench): number =>
  shareOf(bench.state('b'), KEY, bench.nowMs)?.borrowed ?? 0

describe('a daemon that begins afresh over a kept store', () => {
  it('takes every term it borrowed in for dead, and says so once its share has shrunk', () => {
    const bench = new Bench()
    bench.lendToB()
    expect(borrowed(bench)).toBeGreaterThan(0)
    bench.start('b', 'kept')
    expect(bench.share('b')).toMatchObject({ home: 400_000, borrowed: 0, expiresAtMs: null })
    expect(bench.site('b').pairs.get('a')?.borrow.dead).toBe(true)
    expect(bench.send('b').pairs['a']?.borrow[2]).toBe(1)
  })

  it('waits for what it lent as if it had acknowledged it just then', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    bench.nowMs += LENDER_WAIT_MS - 100
    bench.start('a', 'kept')
    bench.nowMs += LENDER_WAIT_MS - 1
    bench.tick('a')
    expect(bench.lent('a', 'b')).toBe(lent)
    bench.nowMs += 2
    bench.tick('a')
    expect(bench.lent('a', 'b')).toBe(0)
  })

  it('does not believe a record from before its restart', () => {
    const bench = new Bench()
    bench.lendToB()
    const late = bench.send('a')
    bench.start('b', 'kept')
    bench.hear('b', late)
    expect(borrowed(bench)).toBe(0)
    expect(bench.state('b').keys.get(KEY)?.row.borrowed).toEqual({})
  })

  it('takes back what it finds lent in a term that is over', () => {
    const limit = aLimit({ algorithm: 'fixed_window', capacity: 60_000, windowMs: 60_000 })
    const bench = new Bench([limit])
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    const pair = bench.site('a').pairs.get('b')
    expect(pair).toBeDefined()
    if (pair === undefined) return
    // The crash came between the pair and the rows of a reclaim.
    const lend = { ...pair.lend, term: pair.lend.term + 1, borrowerIncarnation: 0 }
    bench.site('a').pairs.set('b', { ...pair, lend })
    bench.start('a', 'kept')
    expect(bench.lent('a', 'b')).toBe(0)
    expect(bench.share('a')).toMatchObject({ home: 600_000 - lent, pinned: true })
  })
})

describe('a daemon that reads its store again after a doubt', () => {
  it('keeps the leases of the terms that the store confirms', () => {
    const bench = new Bench()
    bench.lendToB()
    const before = borrowed(bench)
    bench.start('b', 'kept', true)
    expect(borrowed(bench)).toBe(before)
    expect(bench.state('b').pairs.get('a')?.borrow.dead).toBe(false)
  })

  it('lets go of the leases of other terms', () => {
    const bench = new Bench()
    bench.lendToB()
    const pair = bench.site('b').pairs.get('a')
    if (pair === undefined) throw new Error('b borrowed from a')
    bench.site('b').pairs.set('a', { ...pair, borrow: { ...pair.borrow, dead: true } })
    bench.start('b', 'kept', true)
    expect(borrowed(bench)).toBe(0)
  })

  it('takes a shrink without a reply for not made until the store tells otherwise', () => {
    const bench = new Bench()
    bench.load('a', 10)
    bench.load('b', 900, 400)
    const site = bench.site('a')
    const event = { kind: 'record', record: bench.send('b') } as const
    const { state, effects } = step(site.state, event, bench.nowMs)
    expect(effects.at(-1)?.kind).toBe('write-shares')
    site.state = state
    bench.start('a', 'kept', true)
    expect(bench.send('a').rows[0]?.lent).toEqual({})
    // The same, but the write had arrived: it is told of from then on.
    bench.arriveUnanswered('a', effects)
    bench.start('a', 'kept', true)
    expect(bench.send('a').rows[0]?.lent['b']?.[1]).toBeGreaterThan(0)
  })
})

describe('a daemon whose store restarted', () => {
  it('writes all that it knows again, leases included', () => {
    const bench = new Bench()
    bench.lendToB()
    bench.site('b').pairs.clear()
    bench.site('b').rows.clear()
    bench.effects.length = 0
    bench.start('b', 'held')
    const kinds = bench.effects.map((effect) => effect.kind)
    expect(kinds.slice(0, 3)).toEqual(['write-pairs', 'write-homes', 'write-shares'])
    expect(bench.site('b').pairs.get('a')?.borrow.dead).toBe(false)
    expect(bench.share('b')?.borrowed).toBe(borrowed(bench))
    expect(borrowed(bench)).toBeGreaterThan(0)
  })
})

describe('a region that lost its memory', () => {
  it('uses its floor, lends and acknowledges nothing until every forgotten loan is over', () => {
    const bench = new Bench()
    bench.lendToB()
    bench.start('a', 'lost')
    const { homes } = bench.site('a')
    expect(homes.get(1)).toBe(0)
    const record = bench.send('a')
    expect(record).toMatchObject({ recovering: true, acks: {}, adopted: {} })
    bench.load('b', 2_000, 400)
    bench.hear('a', bench.send('b'))
    bench.load('a', 10)
    expect(bench.lent('a', 'b')).toBe(0)
    bench.nowMs += LENDER_WAIT_MS
    bench.tick('a')
    expect(bench.site('a').homes.get(1)).toBe(600_000)
    expect(bench.send('a')).toMatchObject({ recovering: false })
  })

  it('holds nothing of what was lent to its former life', () => {
    const bench = new Bench()
    bench.lendToB()
    bench.start('b', 'lost')
    bench.hear('b', bench.send('a'))
    expect(bench.state('b').keys.get(KEY)?.row.borrowed ?? {}).toEqual({})
  })

  it('uses nothing of windows until the one in which recovery ended is over', () => {
    const limit = aLimit({ algorithm: 'fixed_window', windowMs: 60_000 })
    const bench = new Bench([limit])
    bench.start('a', 'lost')
    bench.nowMs += LENDER_WAIT_MS + 1
    bench.tick('a')
    expect(bench.send('a').recovering).toBe(false)
    expect(bench.site('a').homes.get(1)).toBe(0)
    // A daemon that takes over in that window goes on with it.
    bench.start('a', 'kept')
    expect(bench.site('a').homes.get(1)).toBe(0)
    bench.nowMs = Math.ceil(bench.nowMs / 60_000) * 60_000 + 100
    bench.tick('a')
    expect(bench.site('a').homes.get(1)).toBe(600_000)
  })
})

describe('before it has both a start and limits', () => {
  it('a ledger does nothing', () => {
    const state = createLedger('a')
    expect(step(state, { kind: 'tick' }, 0)).toEqual({ state, effects: [] })
    const limits = new Map([[1, aLimit()]])
    const event = {
      kind: 'limits',
      policyRevision: 1,
      limits,
      members: ['a', 'b'],
      formerMembers: [],
      leastIncarnations: {},
    } as const
    const given = step(state, event, 0)
    expect(given.effects).toEqual([])
    expect(step(given.state, { kind: 'tick' }, LOAN_TTL_MS).effects).toEqual([])
  })
})
