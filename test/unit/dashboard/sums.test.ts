import { describe, expect, it } from 'vitest'
import { age, compact, percent, windowName } from '../../../services/dashboard/src/data/format.ts'
import type { LimitShares } from '../../../services/dashboard/src/data/live-state.ts'
import {
  largestShareSum,
  ratesByRegion,
  type SharePoint,
  withPoint,
} from '../../../services/dashboard/src/data/sums.ts'
import type { UsageReply } from '../../../shared/protocol/admin-replies.ts'

const sharesOf = (...units: readonly number[][]): LimitShares[] =>
  [
    {
      policy: 'p',
      capacity: 1_000,
      keys: units.map((parts, i) => ({
        key: `k${i}`,
        regions: parts.map((one, j) => ({ region: `r${j}`, share: { units: one } })),
      })),
    },
  ] as unknown as LimitShares[]

describe('the meter of shares', () => {
  it('is of the key whose shares come to most', () => {
    expect(largestShareSum(sharesOf([300_000, 200_000], [600_000, 400_000]))).toMatchObject({
      key: { key: 'k1' },
      ratio: 1,
    })
  })

  it('leaves out keys of a region that is cut off, whose last word others have acted on since', () => {
    const limits = sharesOf([900_000, 400_000], [700_000])
    expect(largestShareSum(limits)?.ratio).toBe(1.3)
    expect(largestShareSum(limits, ['r1'])?.ratio).toBe(0.7)
    expect(largestShareSum(limits, ['r0'])).toBeNull()
  })

  it('says nothing while no key is hot', () => {
    expect(largestShareSum(sharesOf())).toBeNull()
    expect(largestShareSum([])).toBeNull()
  })
})

describe('rates of regions', () => {
  it('adds up the newest complete windows, and leaves long ones out', () => {
    const window = (admitted: number, isComplete: boolean) => ({
      isComplete,
      regions: [{ region: 'eu', admitted, denied: 1 }],
    })
    const usage = {
      limits: [
        { usageWindowMs: 1_000, windows: [window(5, false), window(40, true)] },
        { usageWindowMs: 10_000, windows: [window(5, false), window(100, true)] },
        { usageWindowMs: 3_600_000, windows: [window(9e6, true)] },
      ],
    } as unknown as UsageReply
    expect(ratesByRegion(usage).get('eu')).toEqual({ admitted: 50, denied: 1.1 })
  })
})

describe('a split that is watched', () => {
  it('keeps one point a second and no more than it can draw', () => {
    let points: readonly SharePoint[] = []
    for (let atS = 0; atS < 1_000; atS++) {
      points = withPoint(points, { atS, tokens: new Map() })
      points = withPoint(points, { atS, tokens: new Map([['eu', 1]]) })
    }
    expect(points).toHaveLength(300)
    expect(points.at(-1)).toEqual({ atS: 999, tokens: new Map() })
  })
})

describe('figures', () => {
  it.each([
    [compact(9_999), '9,999'],
    [compact(1_234_567), '1.2M'],
    [percent(0.005), '0.5 %'],
    [percent(0), '0 %'],
    [age(119_999), '119 s'],
    [age(3 * 3_600_000), '3 h'],
    [windowName(60_000), 'minute'],
    [windowName(10_000), '10 s'],
  ])('%s', (shown, expected) => {
    expect(shown).toBe(expected)
  })
})
