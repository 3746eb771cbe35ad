import { describe, expect, it } from 'vitest'
import type { CheckRecord, ReferenceLimit } from '../../../services/cli/demo/check-record.ts'
import { Collector } from '../../../services/cli/demo/collector.ts'

const LIMIT: ReferenceLimit = {
  name: 'demo',
  rule: { algorithm: 'token_bucket', capacity: 1_000, windowMs: 1_000, burst: 100 },
  counterOf: () => '',
}
const PER_CLIENT: ReferenceLimit = {
  name: 'per-client',
  rule: { algorithm: 'fixed_window', capacity: 2, windowMs: 10_000 },
  counterOf: (check) => check.client,
}

/** Offers 1,200 a second, of which a limiter admits the given number a second, evenly. */
function run(admittedPerSecond: (atMs: number) => number, forMs = 10_000): Collector {
  const collector = new Collector([LIMIT], 0)
  let credit = 0
  for (let i = 0; i < (forMs * 1_200) / 1_000; i++) {
    const sentMs = (i * 1_000) / 1_200
    credit = Math.min(credit + admittedPerSecond(sentMs) / 1_200, 2)
    const isAdmitted = credit >= 1
    if (isAdmitted) credit -= 1
    collector.add(check({ sentMs, outcome: isAdmitted ? 'admitted' : 'denied' }))
  }
  return collector
}

function check(part: Partial<CheckRecord> & { readonly sentMs: number }): CheckRecord {
  return {
    region: 0,
    client: 'a',
    receivedMs: part.sentMs + 1,
    outcome: 'admitted',
    ...part,
  }
}

describe('utilisation', () => {
  it('is the admitted part of what one limiter for all would have admitted', () => {
    expect(run(() => 500).utilisation()).toBeCloseTo(0.495, 2)
    expect(run(() => 1_000).utilisation()).toBeGreaterThan(0.98)
  })

  it('is 1 when everything offered is admitted, however little that is', () => {
    const collector = new Collector([LIMIT], 0)
    for (let i = 0; i < 50; i++) collector.add(check({ sentMs: i * 20 }))
    expect(collector.utilisation()).toBe(1)
  })

  it('needs room under every limit at once', () => {
    const collector = new Collector([LIMIT, PER_CLIENT], 0)
    for (let i = 0; i < 10; i++) {
      collector.add(check({ sentMs: i, outcome: i < 2 ? 'admitted' : 'denied' }))
    }
    expect(collector.utilisation()).toBe(1)
  })
})

describe('convergence', () => {
  it('is the time from the turn until throughput reaches 95 % and stays', () => {
    const collector = run((atMs) => (atMs > 4_000 && atMs < 4_600 ? 500 : 1_000))
    const convergenceMs = collector.convergenceMs(4_000)
    expect(convergenceMs).toBeGreaterThan(450)
    expect(convergenceMs).toBeLessThanOrEqual(600)
  })

  it('does not count a peak that does not last', () => {
    const collector = run((atMs) => {
      if (atMs > 4_000 && atMs < 4_500) return 500
      return atMs > 5_200 && atMs < 6_000 ? 500 : 1_000
    })
    expect(collector.convergenceMs(4_000)).toBeGreaterThan(1_500)
  })

  it('is zero when nothing was lost and null when the load was never followed', () => {
    expect(run(() => 1_000).convergenceMs(4_000)).toBe(0)
    expect(run((atMs) => (atMs < 4_000 ? 1_000 : 600)).convergenceMs(4_000)).toBeNull()
  })
})

describe('a report', () => {
  it('gives the overshoot of each limit, the worst of its counters', () => {
    const collector = new Collector([LIMIT, PER_CLIENT], 0)
    for (let i = 0; i < 5; i++) collector.add(check({ sentMs: 1_000 + i, client: 'crawler' }))
    for (let i = 0; i < 2; i++) collector.add(check({ sentMs: 1_000 + i, client: 'reader' }))
    expect(collector.overshoots()).toEqual([
      { name: 'demo', overshoot: 0 },
      { name: 'per-client', overshoot: 3 },
    ])
  })

  it('counts the most admissions that certainly fell within one second', () => {
    const collector = new Collector([LIMIT], 0)
    for (let i = 0; i < 30; i++) collector.add(check({ sentMs: i * 100 }))
    expect(collector.admittedMaxPerSecond()).toBe(10)
  })

  it('splits the admitted tokens by region, in per cent', () => {
    const collector = new Collector([LIMIT], 0)
    for (let i = 0; i < 10; i++) collector.add(check({ sentMs: i, region: i < 6 ? 0 : 1 }))
    collector.add(check({ sentMs: 3, region: 1, outcome: 'denied' }))
    expect(collector.split(0, 100, 2)).toEqual([60, 40])
    expect(collector.split(200, 300, 2)).toEqual([0, 0])
  })

  it('leaves checks without a usable answer out of everything but their number', () => {
    const collector = new Collector([LIMIT], 0)
    for (let i = 0; i < 500; i++) collector.add(check({ sentMs: 1, outcome: 'failed' }))
    collector.add(check({ sentMs: 2, receivedMs: 6 }))
    expect(collector.failed).toBe(500)
    expect(collector.answered).toHaveLength(1)
    expect(collector.overshoots()[0]?.overshoot).toBe(0)
    expect(collector.roundTripMs(0.99)).toBe(4)
  })
})
