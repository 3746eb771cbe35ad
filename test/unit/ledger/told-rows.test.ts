import { describe, expect, it } from 'vitest'
import { COUNTS_EVERY_MS } from '../../../shared/core/ledger/told-rows.ts'
import type { RecordRow } from '../../../shared/core/ledger/types.ts'
import { Bench, KEY } from './bench.ts'

/** The row of the key in the next record of region a. */
function told(bench: Bench): RecordRow {
  const row = bench.send('a').rows.find(({ id }) => id === KEY)
  if (row === undefined) throw new Error('the key is tracked')
  return row
}

/** Region a with a demand that has settled. */
function settled(perSecond: number): Bench {
  const bench = new Bench()
  for (let round = 0; round < 12; round++) bench.load('a', perSecond)
  return bench
}

describe('what a record says of a key', () => {
  it('is the very row of the last record while nothing changes that matters', () => {
    const bench = settled(200)
    const before = told(bench)
    bench.load('a', 198)
    expect(told(bench)).toBe(before)
  })

  it('tells demand that rises by more than the safety stock covers, and demand that ends', () => {
    const bench = settled(200)
    const before = told(bench).demand
    for (let round = 0; round < 6; round++) bench.load('a', 210)
    expect(told(bench).demand).toBeGreaterThan(1.02 * before)
    for (let round = 0; round < 40; round++) bench.load('a', 0)
    expect(told(bench).demand).toBe(0)
  })

  it('tells hunger and its demand at once', () => {
    const bench = settled(500)
    told(bench)
    bench.load('a', 900, 600)
    const row = told(bench)
    expect(row.hungry).toBe(true)
    expect(row.demand).toBeGreaterThan(600_000)
  })

  it('tells counts of tokens now and then, and in the end exactly', () => {
    const bench = settled(200)
    const before = told(bench)
    bench.load('a', 200)
    expect(told(bench).admitted).toBe(before.admitted)
    for (let ms = 0; ms < COUNTS_EVERY_MS; ms += 500) bench.load('a', 200)
    const counted = bench.state('a').keys.get(KEY)?.estimate?.admitted
    expect(told(bench).admitted).toBe(counted)
  })

  it('always tells loans as they are', () => {
    const bench = new Bench()
    bench.lendToB()
    expect(told(bench).lent['b']?.[1]).toBe(bench.state('a').keys.get(KEY)?.row.lent['b']?.lent)
    expect(bench.lent('a', 'b')).toBeGreaterThan(0)
  })
})
