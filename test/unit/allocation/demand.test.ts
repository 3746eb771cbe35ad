import { describe, expect, it } from 'vitest'
import {
  beginDemand,
  type DemandEstimate,
  type DemandSetting,
  measureDemand,
} from '../../../shared/core/allocation/demand.ts'

const SETTING: DemandSetting = { tokensPerSecond: 1_000, tokensAtOnce: 1_000, isOtherHungry: false }

/** Attempts at `rate` a second for `forMs`, of which at most `share` a second are admitted. */
function offer(
  from: DemandEstimate,
  load: { rate: number; share?: number; forMs: number; everyMs?: number },
  setting: DemandSetting = SETTING,
): DemandEstimate {
  const { rate, share = rate, forMs, everyMs = 250 } = load
  let estimate = from
  for (let at = everyMs; at <= forMs; at += everyMs) {
    const seconds = (atMs: number): number => atMs / 1_000
    estimate = measureDemand(
      estimate,
      {
        atMs: from.atMs + at,
        admitted: from.admitted + Math.round(Math.min(rate, share) * seconds(at)),
        denied: from.denied + Math.round(Math.max(0, rate - share) * seconds(at)),
      },
      setting,
    )
  }
  return estimate
}

const START = beginDemand({ atMs: 0, admitted: 0, denied: 0 })

describe('demand', () => {
  it('is unknown until one interval has been seen, then what was attempted in it and two deviations', () => {
    expect(START.perSecond).toBeNull()
    expect(offer(START, { rate: 400, forMs: 250 }).perSecond).toBe(480)
  })

  it('is the average of all that was seen until there is enough of it', () => {
    const first = offer(START, { rate: 400, forMs: 250 })
    const second = offer(first, { rate: 400, forMs: 250 })
    const fourth = offer(second, { rate: 400, forMs: 500 })
    // What the first look added for safety is gone after a second, not after several smoothing times.
    expect(second.perSecond).toBeLessThan(435)
    expect(fourth.perSecond).toBeLessThan(414)
  })

  it('of a region that denies is what was attempted and no more: it asks, it is not asked', () => {
    const estimate = offer(START, { rate: 400, share: 100, forMs: 250 })
    expect(estimate).toMatchObject({ perSecond: 400, hungry: true })
  })

  it('is measured after a short interval when that shows denials, or is the first', () => {
    const short = { forMs: 100, everyMs: 100 }
    const known = offer(START, { rate: 400, forMs: 1_000 })
    expect(offer(START, { rate: 400, ...short })).not.toBe(START)
    expect(offer(known, { rate: 400, ...short })).toBe(known)
    expect(offer(known, { rate: 800, share: 400, ...short }).hungry).toBe(true)
  })

  it('counts what was denied: a region offered 900 with room for 100 demands 900 (B149)', () => {
    const estimate = offer(START, { rate: 900, share: 100, forMs: 2_000 })
    expect(estimate.perSecond).toBeCloseTo(900, -1)
    expect(estimate.hungry).toBe(true)
  })

  it('does not jump for denials that chance explains: a bucket runs empty in intervals that read high', () => {
    const steady = offer(START, { rate: 150, forMs: 4_000 })
    const estimate = offer(steady, { rate: 210, share: 160, forMs: 100, everyMs: 100 })
    expect(estimate.hungry).toBe(true)
    expect(estimate.perSecond).toBeLessThan(157)
  })

  it('jumps up within one interval when the region denies', () => {
    const calm = offer(START, { rate: 100, forMs: 2_000 })
    const estimate = offer(calm, { rate: 1_000, share: 100, forMs: 250 })
    expect(estimate.perSecond).toBeGreaterThan(900)
    expect(estimate.perSecond).toBeLessThan(1_000)
  })

  it('falls within half a second while others are short, and slowly otherwise', () => {
    const busy = offer(START, { rate: 1_000, forMs: 3_000 })
    const short = { ...SETTING, isOtherHungry: true }
    const quick = offer(busy, { rate: 100, forMs: 500, everyMs: 100 }, short)
    expect(quick.perSecond).toBeLessThan(160)
    expect(offer(busy, { rate: 100, forMs: 500 }).perSecond).toBeGreaterThan(600)
  })

  it('sees a fall that is noise in one interval but not in several', () => {
    const busy = offer(START, { rate: 72, forMs: 3_000, everyMs: 100 })
    const short = { ...SETTING, tokensPerSecond: 100, isOtherHungry: true }
    const once = offer(busy, { rate: 12, forMs: 100, everyMs: 100 }, short)
    expect(once.perSecond).toBeGreaterThan(60)
    expect(offer(busy, { rate: 12, forMs: 700, everyMs: 100 }, short).perSecond).toBeLessThan(20)
  })

  it('does not ride noise upwards', () => {
    let estimate = START
    let [admitted, seed, peak] = [0, 1, 0]
    for (let atMs = 100; atMs <= 60_000; atMs += 100) {
      // A crude Poisson stand-in: 15 attempts an interval, give or take four.
      seed = (seed * 48_271) % 2_147_483_647
      admitted += 11 + (seed % 9)
      const reading = { atMs, admitted, denied: 0 }
      estimate = measureDemand(estimate, reading, { ...SETTING, isOtherHungry: true })
      if (atMs > 5_000) peak = Math.max(peak, estimate.perSecond ?? 0)
    }
    expect(peak).toBeLessThan(165)
  })

  it('learns nothing from intervals that are too short, and shorter ones while someone denies', () => {
    const seen = offer(START, { rate: 400, forMs: 250 })
    const soon = { atMs: seen.atMs + 120, admitted: 148, denied: 0 }
    expect(measureDemand(seen, soon, SETTING)).toBe(seen)
    expect(measureDemand(seen, soon, { ...SETTING, isOtherHungry: true })).not.toBe(seen)
  })

  it('goes on when the store begins to count anew', () => {
    const seen = offer(START, { rate: 400, forMs: 10_000 })
    const reading = { atMs: seen.atMs + 250, admitted: 100, denied: 0 }
    expect(measureDemand(seen, reading, SETTING).perSecond).toBeCloseTo(400, 0)
  })

  it('of a limit of five a minute is hungry at its first denial, and none at all in the end', () => {
    const slow = { tokensPerSecond: 5 / 60, tokensAtOnce: 5, isOtherHungry: false }
    const denied = measureDemand(START, { atMs: 250, admitted: 0, denied: 1 }, slow)
    expect(denied.hungry).toBe(true)
    const { perSecond } = offer(denied, { rate: 0, forMs: 600_000 }, slow)
    expect(perSecond).toBe(0)
  })
})
