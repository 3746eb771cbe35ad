import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Collector } from '../../services/cli/demo/collector.ts'
import type { Plane } from '../../services/cli/plane/topology.ts'
import {
  admittedPerSecond,
  BURST,
  CAPACITY,
  drive,
  localPlane,
  offered,
  REGIONS,
} from './support.ts'

/** What the issue asks for: 50 ms from region to region, one way. */
const LINK_DELAY_MS = 50

const [US, EU] = REGIONS
/** The regions' own parts of the limit, a second. */
const US_BASE = 0.6 * CAPACITY
const EU_BASE = 0.4 * CAPACITY

let plane: Plane
beforeAll(async () => {
  plane = await localPlane({ linkDelayMs: LINK_DELAY_MS })
})
afterAll(() => plane?.stop())

function overshoot(collector: Collector): number | undefined {
  return collector.overshoots()[0]?.overshoot
}

describe('a step in the load', () => {
  it('is followed to 95 % of the achievable within two seconds, ten times of ten', async () => {
    const stepMs = 3_000
    const phases = Array.from({ length: 11 }, (_, i) => ({
      fromMs: i * stepMs,
      offered: i % 2 === 0 ? offered(60, 40) : offered(10, 90),
    }))
    const collector = await drive(plane, 'steps', { phases, endMs: 11 * stepMs })
    const times = phases.slice(1).map(({ fromMs }) => collector.convergenceMs(fromMs))
    expect(overshoot(collector)).toBe(0)
    // With ten steps, the 95th percentile is the slowest of them.
    expect(Math.max(...times.map((ms) => ms ?? Number.POSITIVE_INFINITY)), `${times}`).toBeLessThan(
      2_000,
    )
  })
})

describe('a cut between the regions in mid-shift', () => {
  it('of both ways for 20 s: nothing is over-admitted, each keeps its base, and they find together again', async () => {
    const load = {
      phases: [
        { fromMs: 0, offered: offered(60, 40) },
        { fromMs: 3_000, offered: offered(10, 90) },
        // While they cannot hear each other, the load turns to the region that had lent its part.
        { fromMs: 19_000, offered: offered(90, 90) },
        { fromMs: 24_000, offered: offered(10, 90) },
      ],
      endMs: 30_000,
    }
    const collector = await drive(plane, 'cut', load, [
      {
        atMs: 3_300,
        run: () => {
          plane.links.cut(US, EU)
          plane.links.cut(EU, US)
        },
      },
      { atMs: 23_300, run: () => plane.links.healAll() },
    ])
    expect(overshoot(collector)).toBe(0)
    // Loans have lapsed after about 10.5 s, so each admits its own base and no more.
    expect(admittedPerSecond(collector, 0, 20_000, 23_000)).toBeGreaterThan(0.93 * US_BASE)
    expect(admittedPerSecond(collector, 1, 15_000, 23_000)).toBeGreaterThan(0.93 * EU_BASE)
    expect(admittedPerSecond(collector, 1, 15_000, 23_000)).toBeLessThan(EU_BASE + BURST)
    expect(collector.convergenceMs(24_000)).toBeLessThan(4_000)
  })

  it('of one way: the same, though one of them still hears the other', async () => {
    const load = {
      phases: [
        { fromMs: 0, offered: offered(60, 40) },
        { fromMs: 2_000, offered: offered(10, 90) },
        { fromMs: 17_000, offered: offered(90, 90) },
        { fromMs: 21_000, offered: offered(10, 90) },
      ],
      endMs: 27_000,
    }
    const collector = await drive(plane, 'one-way', load, [
      { atMs: 2_300, run: () => plane.links.cut(US, EU) },
      { atMs: 20_500, run: () => plane.links.heal(US, EU) },
    ])
    expect(overshoot(collector)).toBe(0)
    expect(admittedPerSecond(collector, 0, 18_000, 20_500)).toBeGreaterThan(0.93 * US_BASE)
    expect(admittedPerSecond(collector, 1, 15_000, 20_500)).toBeGreaterThan(0.93 * EU_BASE)
    expect(collector.convergenceMs(21_000)).toBeLessThan(4_000)
  })
})

describe('a part that dies under load', () => {
  it("the borrower's sync daemon: nothing is over-admitted, and the base stays with its region", async () => {
    const borrower = plane.regions[1]?.sync.child
    const load = {
      phases: [
        { fromMs: 0, offered: offered(60, 40) },
        { fromMs: 1_000, offered: offered(10, 90) },
        { fromMs: 15_000, offered: offered(90, 90) },
      ],
      endMs: 20_000,
    }
    const collector = await drive(plane, 'daemon', load, [
      { atMs: 3_000, run: () => borrower?.kill('SIGKILL') },
      { atMs: 18_000, run: () => borrower?.restart() },
    ])
    expect(overshoot(collector)).toBe(0)
    expect(admittedPerSecond(collector, 1, 3_000, 18_000)).toBeGreaterThan(0.93 * EU_BASE)
    expect(admittedPerSecond(collector, 0, 16_000, 18_000)).toBeGreaterThan(0.93 * US_BASE)
  })

  it("the lender's Redis: nothing is over-admitted, and its region decides again by itself", async () => {
    const lender = plane.regions[0]?.redis.child
    const load = {
      phases: [
        { fromMs: 0, offered: offered(60, 40) },
        { fromMs: 1_000, offered: offered(10, 90) },
        { fromMs: 5_000, offered: offered(90, 90) },
      ],
      endMs: 21_000,
    }
    const collector = await drive(plane, 'redis', load, [
      { atMs: 4_000, run: () => lender?.kill('SIGKILL') },
      { atMs: 4_500, run: () => lender?.restart() },
    ])
    expect(overshoot(collector)).toBe(0)
    expect(admittedPerSecond(collector, 1, 2_000, 21_000)).toBeGreaterThan(0.93 * EU_BASE)
    expect(admittedPerSecond(collector, 0, 18_000, 21_000)).toBeGreaterThan(0.9 * US_BASE)
  })
})
