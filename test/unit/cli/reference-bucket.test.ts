import { describe, expect, it } from 'vitest'
import type { CheckRecord } from '../../../services/cli/demo/check-record.ts'
import { bucketExcess } from '../../../services/cli/demo/reference-bucket.ts'

const RULE = { capacity: 1_000, windowMs: 1_000, burst: 100 }

/** A token bucket on one clock, which may be made to admit too much. */
function runBucket(options: {
  readonly ratePerMs: number
  readonly burst: number
  readonly offeredPerMs: number
  readonly forMs: number
  readonly roundTripMs: (i: number) => number
}): CheckRecord[] {
  const admissions: CheckRecord[] = []
  let tokens = options.burst
  let atMs = 0
  const count = options.forMs * options.offeredPerMs
  for (let i = 0; i < count; i++) {
    const decidedMs = i / options.offeredPerMs
    tokens = Math.min(options.burst, tokens + (decidedMs - atMs) * options.ratePerMs)
    atMs = decidedMs
    if (tokens < 1) continue
    tokens -= 1
    const tripMs = options.roundTripMs(i)
    const sentMs = decidedMs - (i % 7) * (tripMs / 7)
    admissions.push(admission(sentMs, sentMs + tripMs))
  }
  return admissions
}

function admission(sentMs: number, receivedMs: number): CheckRecord {
  return { region: 0, client: '', sentMs, receivedMs, outcome: 'admitted' }
}

const honest = { ratePerMs: 1, burst: 100, offeredPerMs: 2, forMs: 5_000 }

describe('the reference bucket', () => {
  it('finds nothing wrong with a limiter that holds the limit exactly', () => {
    expect(bucketExcess(runBucket({ ...honest, roundTripMs: () => 2 }), RULE)).toBe(0)
  })

  it('never takes late answers for an overshoot', () => {
    const stalls = (i: number): number => (i % 1_000 < 300 ? 400 : 2)
    expect(bucketExcess(runBucket({ ...honest, roundTripMs: stalls }), RULE)).toBe(0)
  })

  it('reports the surplus of a limiter with too large a burst', () => {
    const loose = runBucket({ ...honest, burst: 150, roundTripMs: () => 0 })
    const excess = bucketExcess(loose, RULE)
    expect(excess).toBeGreaterThanOrEqual(45)
    expect(excess).toBeLessThanOrEqual(50)
  })

  it('reports a limiter that refills one per cent too fast, though each second looks harmless', () => {
    const fast = runBucket({ ...honest, ratePerMs: 1.01, forMs: 10_000, roundTripMs: () => 3 })
    expect(bucketExcess(fast, RULE)).toBeGreaterThan(80)
  })

  it('reports two regions that each spend the whole limit for a moment', () => {
    const one = runBucket({ ...honest, forMs: 500, roundTripMs: () => 2 })
    const excess = bucketExcess([...one, ...one], RULE)
    expect(excess).toBeGreaterThan(400)
  })

  it('misses no more than what fits into one round trip', () => {
    const loose = runBucket({ ...honest, burst: 150, roundTripMs: () => 20 })
    expect(bucketExcess(loose, RULE)).toBeGreaterThanOrEqual(50 - 2 * 20)
  })

  it('counts checks that leave at one instant together', () => {
    const volley = Array.from({ length: 103 }, () => admission(10, 11))
    expect(bucketExcess(volley, RULE)).toBe(2)
  })

  it('has nothing to say of no admissions', () => {
    expect(bucketExcess([], RULE)).toBe(0)
  })
})
