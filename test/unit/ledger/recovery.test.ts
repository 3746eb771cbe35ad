import { describe, expect, it } from 'vitest'
import { LENDER_WAIT_MS } from '../../../shared/core/ledger/constants.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, Bench, KEY } from './bench.ts'

const THREE = ['a', 'b', 'c'] as const

/** Three regions, of which a lends to b and then loses its memory. */
function aLossOfA(limit = aLimit({ base: { a: 600_000, b: 300_000, c: 100_000 } })): Bench {
  const bench = new Bench([limit], [...THREE])
  bench.lendToB()
  expect(bench.lent('a', 'b')).toBeGreaterThan(0)
  bench.start('a', 'lost')
  return bench
}

/** The region hears of a's new life and answers; a hears that. */
function answer(bench: Bench, region: string): void {
  bench.hear(region, bench.send('a'))
  bench.hear('a', bench.send(region))
}

const isRecovering = (bench: Bench): boolean => bench.state('a').recoveringUntilMs !== null
const sum = (bench: Bench): number =>
  THREE.reduce((all, region) => all + bench.effective(region), 0)

describe('a recovering region', () => {
  it('is done as soon as every member has said that it uses no forgotten loan', () => {
    const bench = aLossOfA()
    answer(bench, 'b')
    expect(isRecovering(bench)).toBe(true)
    answer(bench, 'c')
    expect(isRecovering(bench)).toBe(false)
    expect(bench.site('a').homes.get(1)).toBe(600_000)
    expect(sum(bench)).toBeLessThanOrEqual(POOL_UNITS)
    expect(bench.state('b').keys.get(KEY)?.row.borrowed['a']).toBeUndefined()
  })

  it('may use what it borrows once it is done, also where it has no part of any limit', () => {
    const bench = new Bench([aLimit({ base: { a: 0, b: 1_000_000 } })])
    bench.start('a', 'lost')
    expect(bench.site('a').isRecovering).toBe(true)
    answer(bench, 'b')
    expect(isRecovering(bench)).toBe(false)
    expect(bench.site('a').isRecovering).toBe(false)
  })

  it('waits in full for a member that is not heard', () => {
    const bench = aLossOfA()
    answer(bench, 'b')
    bench.nowMs += LENDER_WAIT_MS - 1
    bench.tick('a')
    expect(isRecovering(bench)).toBe(true)
    bench.nowMs += 1
    bench.tick('a')
    expect(isRecovering(bench)).toBe(false)
  })

  it('takes no answer from a record that was sent before it lost its memory', () => {
    const bench = aLossOfA()
    for (const region of ['b', 'c']) bench.hear('a', bench.send(region))
    bench.tick('a')
    expect(isRecovering(bench)).toBe(true)
  })

  it('waits in full while a region was removed so lately that it may have lent to it since', () => {
    const bench = new Bench([aLimit()])
    bench.formerMembers = ['z']
    bench.start('a', 'lost')
    answer(bench, 'b')
    expect(isRecovering(bench)).toBe(true)
    bench.formerMembers = []
    bench.setLimits([aLimit()])
    bench.giveLimits('a')
    bench.tick('a')
    expect(isRecovering(bench)).toBe(false)
  })

  it('waits in full when it is no member itself: nobody hears it', () => {
    const bench = new Bench([aLimit()])
    bench.start('a', 'lost')
    const limits = new Map([[1, aLimit()]])
    const membership = { members: ['b'], formerMembers: [], leastIncarnations: {} }
    bench.feed('a', { kind: 'limits', policyRevision: 9, limits, ...membership })
    answer(bench, 'b')
    expect(isRecovering(bench)).toBe(true)
  })

  it('goes on denying the windows in which forgotten loans were used', () => {
    const base = { a: 600_000, b: 300_000, c: 100_000 }
    const bench = aLossOfA(aLimit({ algorithm: 'fixed_window', windowMs: 60_000, base }))
    for (const region of ['b', 'c']) answer(bench, region)
    expect(isRecovering(bench)).toBe(false)
    expect(bench.site('a').homes.get(1)).toBe(0)
    bench.nowMs = Math.ceil(bench.nowMs / 60_000) * 60_000 + 100
    bench.tick('a')
    expect(bench.site('a').homes.get(1)).toBe(600_000)
  })
})

describe('an answer', () => {
  it('is given only once the share has shrunk, and by a record alone that lends nothing', () => {
    const bench = aLossOfA()
    const before = bench.effective('b')
    const effects = bench.hear('b', bench.send('a'))
    const kinds = effects.map((effect) => effect.kind)
    expect(kinds).toEqual(['write-pairs', 'write-shares', 'publish'])
    expect(bench.effective('b')).toBeLessThan(before)
    expect(bench.send('b').pairs['a']?.borrow).toEqual([2, 0, 1])
  })

  it('holds through a restart: no record of the former life revives a loan', () => {
    const bench = new Bench()
    bench.lendToB()
    const late = bench.send('a')
    bench.start('a', 'lost')
    bench.hear('b', bench.send('a'))
    bench.start('b', 'kept')
    bench.hear('b', late)
    expect(bench.state('b').keys.get(KEY)?.row.borrowed ?? {}).toEqual({})
    expect(bench.send('b').pairs['a']?.borrow[0]).toBe(2)
  })

  it('is given by a region that recovers itself, for it holds nothing', () => {
    const bench = new Bench()
    bench.lendToB()
    for (const region of ['a', 'b']) bench.start(region, 'lost')
    answer(bench, 'b')
    expect(isRecovering(bench)).toBe(false)
  })
})

describe('a region that was removed on an operator’s word', () => {
  it('is not believed in its former life, and what it lent is not used any more', () => {
    const bench = new Bench()
    bench.lendToB()
    const held = bench.effective('b')
    const late = bench.send('a')
    bench.leastIncarnations = { a: 5 }
    bench.setLimits([aLimit()])
    bench.giveLimits('b')
    expect(bench.effective('b')).toBeLessThan(held)
    bench.hear('b', late)
    expect(bench.state('b').heard.get('a')?.record).not.toBe(late)
    // By this word of a peer the region learns, should it come back, that its state is void.
    expect(bench.send('b').pairs['a']?.borrow[0]).toBe(5)
  })
})
