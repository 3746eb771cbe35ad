import { describe, expect, it } from 'vitest'
import { splitBase } from '../../../shared/core/base-split.ts'
import { aLimit, Bench, KEY } from './bench.ts'

/** So many regions that looking at one key takes long enough to wait for. */
const REGIONS = Array.from({ length: 51 }, (_, index) => `r${String(index).padStart(2, '0')}`)
const [LENDER = '', FIRST = '', SECOND = ''] = REGIONS

describe('rounds of rebalancing', () => {
  it('look at a key once for what many peers say of it, and again with the next event', () => {
    const weights = Object.fromEntries(REGIONS.map((region) => [region, 1]))
    const bench = new Bench([aLimit({ base: splitBase(weights, 1_000) })], REGIONS)
    for (const region of [LENDER, FIRST, SECOND]) bench.load(region, region === LENDER ? 0 : 30, 0)
    const [one, other] = [bench.send(FIRST), bench.send(SECOND)]

    bench.nowMs += 10
    bench.hear(LENDER, one)
    expect(bench.lent(LENDER, FIRST)).toBeGreaterThan(0)
    bench.hear(LENDER, other)
    expect([...bench.state(LENDER).due]).toEqual([KEY])

    bench.nowMs += 10
    bench.hear(LENDER, bench.send(REGIONS[3] ?? ''))
    expect([...bench.state(LENDER).due]).toEqual([])
  })

  it('of a small plane follow every record at once', () => {
    const bench = new Bench()
    bench.load('a', 10)
    bench.load('b', 900, 400)
    bench.hear('a', bench.send('b'))
    bench.hear('a', bench.send('b'))
    expect(bench.state('a').due.size).toBe(0)
  })
})
