import { describe, expect, it } from 'vitest'
import { Clairvoyant } from '../../simulation/sim/meters/clairvoyant.ts'
import { fairParts, jain } from '../../simulation/sim/meters/fairness.ts'
import { type JudgedNumbers, Reference } from '../../simulation/sim/meters/reference.ts'

const BUCKET: JudgedNumbers = {
  algorithm: 'token_bucket',
  capacity: 100,
  windowMs: 1_000,
  burst: 10,
}
const WINDOW: JudgedNumbers = { ...BUCKET, algorithm: 'fixed_window', burst: 100 }

describe('the reference bucket', () => {
  it('allows a burst and what refills, and counts the first token beyond', () => {
    const reference = new Reference(BUCKET, 1)
    for (let token = 0; token < 10; token++) reference.onAdmitted(0, 1, 0, 0)
    expect(reference.excess).toBe(0)
    reference.onAdmitted(0, 1, 10_000, 0)
    expect(reference.excess).toBe(0)
    reference.onAdmitted(0, 1, 10_000, 0)
    expect(reference.excess).toBeGreaterThan(0.99)
    expect(reference.excessAtUs).toBe(10_000)
  })

  it('forgets no debt: an excess counts until it was saved up again', () => {
    const reference = new Reference(BUCKET, 1)
    reference.onAdmitted(0, 30, 0, 0)
    expect(reference.excess).toBeCloseTo(20, 6)
    reference.onAdmitted(0, 20, 100_000, 0)
    expect(reference.excess).toBeGreaterThan(29)
  })

  it('counts each key by itself', () => {
    const reference = new Reference(BUCKET, 2)
    reference.onAdmitted(0, 10, 0, 0)
    reference.onAdmitted(1, 10, 0, 0)
    expect(reference.excess).toBe(0)
  })

  it('allows what a lowered limit allowed before, and no more after', () => {
    const reference = new Reference(BUCKET, 1)
    reference.setNumbers({ ...BUCKET, capacity: 50, burst: 5 }, 1_000_000)
    reference.onAdmitted(0, 5, 1_000_000, 0)
    expect(reference.excess).toBe(0)
    reference.onAdmitted(0, 2, 1_020_000, 0)
    expect(reference.excess).toBeGreaterThan(0.9)
  })
})

describe('the reference window', () => {
  it('counts a window by the label of the clock that decided, not by arrival', () => {
    const reference = new Reference(WINDOW, 1)
    reference.onAdmitted(0, 100, 990_000, 990_000)
    reference.onAdmitted(0, 100, 990_000, 1_000_000)
    expect(reference.excess).toBe(0)
    // A slow clock still counts for the window before.
    reference.onAdmitted(0, 1, 1_010_000, 999_999)
    expect(reference.excess).toBe(1)
  })
})

describe('the reference span', () => {
  const SLIDING: JudgedNumbers = { ...WINDOW, algorithm: 'sliding_window' }

  it('counts any span of a window by the fastest clock, whatever windows are called', () => {
    const reference = new Reference(SLIDING, 1)
    reference.onAdmitted(0, 100, 500_000, 500_000)
    reference.onAdmitted(0, 1, 1_499_000, 2_000_000)
    expect(reference.excess).toBe(1)
    const other = new Reference(SLIDING, 1)
    other.onAdmitted(0, 100, 500_000, 500_000)
    other.onAdmitted(0, 100, 1_499_200, 500_000)
    expect(other.excess).toBe(0)
  })

  it('allows what a lowered limit allowed before for a window more', () => {
    const reference = new Reference(SLIDING, 1)
    reference.onAdmitted(0, 100, 100_000, 0)
    for (const capacity of [20, 5]) reference.setNumbers({ ...SLIDING, capacity }, 200_000)
    reference.onAdmitted(0, 1, 300_000, 0)
    expect(reference.excess).toBe(1)
    reference.onAdmitted(0, 9, 1_300_000, 0)
    expect(reference.excess).toBeGreaterThanOrEqual(4)
  })
})

describe('the clairvoyant limiter', () => {
  it('admits exactly a burst and the rate of the whole limit, wherever it is asked', () => {
    const clairvoyant = new Clairvoyant(BUCKET, [0.5, 0.5], 1)
    let admitted = 0
    for (let call = 0; call < 3_000; call++) {
      if (clairvoyant.admits(0, call % 2, 1, call * 1_000)) admitted++
    }
    expect(Math.abs(admitted - 310)).toBeLessThanOrEqual(1)
  })

  it('gives each part of a cut plane the base of its members, and joins what they hold', () => {
    const clairvoyant = new Clairvoyant(BUCKET, [0.2, 0.3, 0.5], 1)
    clairvoyant.setGroups([0, 1, 1], 0)
    const take = (region: number, atUs: number): number => {
      let admitted = 0
      while (clairvoyant.admits(0, region, 1, atUs)) admitted++
      return admitted
    }
    expect([take(0, 0), take(1, 0), take(2, 0)]).toEqual([2, 8, 0])
    clairvoyant.setGroups([0, 0, 0], 0)
    expect(take(0, 50_000)).toBe(5)
  })

  it('fills a window at its edge', () => {
    const clairvoyant = new Clairvoyant(WINDOW, [1], 1)
    expect(clairvoyant.admits(0, 0, 100, 999_999)).toBe(true)
    expect(clairvoyant.admits(0, 0, 1, 999_999)).toBe(false)
    expect(clairvoyant.admits(0, 0, 1, 1_000_000)).toBe(true)
  })
})

describe('fairness', () => {
  it('gives small wants whole and splits the rest by weight', () => {
    expect(fairParts([10, 100, 100], [1, 1, 1], 100)).toEqual([10, 45, 45])
    expect(fairParts([100, 100, 0], [3, 1, 4], 80)).toEqual([60, 20, 0])
    expect(fairParts([10, 20], [1, 1], 100)).toEqual([10, 20])
  })

  it('is 1 for equals and 1/n for one who has all', () => {
    expect(jain([2, 2, 2])).toBeCloseTo(1)
    expect(jain([6, 0, 0])).toBeCloseTo(1 / 3)
  })
})
