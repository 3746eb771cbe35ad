import { describe, expect, it } from 'vitest'
import { LENDER_WAIT_MS, LOAN_TTL_MS } from '../../shared/core/ledger/constants.ts'
import type { LedgerLimit } from '../../shared/core/ledger/types.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { runChaos } from './model/chaos.ts'
import { FAIR } from './model/network.ts'
import { aLimit, keyOf, World } from './model/world.ts'
import { eachSeed } from './seeds.ts'

type Demand = Readonly<Record<string, number>>

/** A world of one key over fair links with 50 ms each way; `demand` in tokens a second by region. */
function aWorld(seed: number, limit: LedgerLimit, demand: (nowMs: number) => Demand): World {
  return new World({
    seed,
    regions: Object.keys(demand(0)),
    limits: [limit],
    weather: FAIR,
    trafficMs: 10,
    measureMs: 100,
    demand: (_id, region, nowMs) => demand(nowMs)[region] ?? 0,
  })
}

const admittedIn = (world: World, forMs: number): number => {
  const before = sum(world.admitted.values())
  world.run(forMs)
  return sum(world.admitted.values()) - before
}
const sum = (numbers: Iterable<number>): number => [...numbers].reduce((all, one) => all + one, 0)
const sharesOf = (world: World, limit: LedgerLimit): number[] =>
  world.sites.map((site) => world.share(keyOf(limit), site.region))

describe('shares', () => {
  it.each([100, 1_000, 10_000])(
    'of %i a second follow a step of load from 60/40 to 10/90 within a second',
    (capacity) => {
      const limit = aLimit({ capacity })
      eachSeed(5, (seed) => {
        const stepMs = 8_000 + seed * 37
        const world = aWorld(seed, limit, (nowMs) =>
          nowMs < stepMs
            ? { a: 0.72 * capacity, b: 0.48 * capacity }
            : { a: 0.12 * capacity, b: 1.08 * capacity },
        )
        world.run(stepMs + 1_000)
        // All that region a does not need itself, less its safety stock.
        const [, share = 0] = sharesOf(world, limit)
        expect(share).toBeGreaterThan((capacity < 1_000 ? 0.75 : 0.83) * POOL_UNITS)
        expect(admittedIn(world, 1_000)).toBeGreaterThan((capacity < 1_000 ? 0.9 : 0.95) * capacity)
      })
    },
  )

  it('of windows follow with the next window', () => {
    const limit = aLimit({ algorithm: 'fixed_window', windowMs: 1_000 })
    eachSeed(5, (seed) => {
      const world = aWorld(seed, limit, (nowMs) =>
        nowMs < 8_000 ? { a: 720, b: 480 } : { a: 120, b: 1_080 },
      )
      world.run(9_600)
      expect(sharesOf(world, limit)[1]).toBeGreaterThan(0.83 * POOL_UNITS)
    })
  })

  it('go to the region that denies: demand counts what was denied (B149)', () => {
    const limit = aLimit({ weights: { a: 10, b: 90 } })
    const world = aWorld(1, limit, () => ({ a: 900, b: 50 }))
    world.run(4_000)
    const [a = 0, b = 0] = sharesOf(world, limit)
    expect(a).toBeGreaterThanOrEqual(900_000)
    expect(b).toBeGreaterThanOrEqual(50_000)
    const deniedBefore = sum(world.denied.values())
    world.run(5_000)
    expect(sum(world.denied.values()) - deniedBefore).toBe(0)
  })

  it('move to a region without a base of its own', () => {
    const limit = aLimit({ capacity: 5, windowMs: 60_000, burst: 5, weights: { a: 1, b: 1, c: 0 } })
    const world = aWorld(1, limit, () => ({ a: 0, b: 0, c: 0.2 }))
    world.run(20_000)
    expect(sharesOf(world, limit)[2]).toBeGreaterThanOrEqual(200_000)
  })

  it.each([
    ['within the limit', { a: 550, b: 350 }],
    ['beyond the limit everywhere', { a: 1_500, b: 1_500 }],
    ['beyond the limit in one region', { a: 1_500, b: 100 }],
  ])('stay where they are under a constant load %s', (_name, demand) => {
    const limit = aLimit({})
    const world = aWorld(3, limit, () => demand)
    world.run(10_000)
    let [moved, before, sent] = [0, sharesOf(world, limit), world.network.sent]
    for (let tenth = 0; tenth < 200; tenth++) {
      world.run(100)
      const shares = sharesOf(world, limit)
      moved += sum(shares.map((share, index) => Math.abs(share - (before[index] ?? 0))))
      before = shares
    }
    // At most a hundredth of the pool a second, and little more than one record a second and region.
    expect(moved / 20).toBeLessThan(POOL_UNITS / 100)
    expect(world.network.sent - sent).toBeLessThan(20 * 2 * 1.5)
  })
})

describe('a partition', () => {
  const limit = aLimit({})

  it('leaves each side its base once the loans have ended, and nothing is stuck after it heals', () => {
    const world = aWorld(2, limit, () => ({ a: 100, b: 1_100 }))
    world.run(8_000)
    expect(sharesOf(world, limit)[1]).toBeGreaterThan(850_000)
    world.network.cutBoth('a', 'b')
    world.run(LOAN_TTL_MS + 500)
    expect(sharesOf(world, limit)[1]).toBe(400_000)
    world.run(LENDER_WAIT_MS - LOAN_TTL_MS + 2_000)
    expect(sharesOf(world, limit)).toEqual([600_000, 400_000])
    world.network.heal()
    world.run(3_000)
    expect(sharesOf(world, limit)[1]).toBeGreaterThan(850_000)
  })

  it('of one direction brings the units home without waiting for the lender’s clock', () => {
    const world = aWorld(2, limit, () => ({ a: 100, b: 1_100 }))
    world.run(8_000)
    world.network.cut('a', 'b')
    // The lender still hears the borrower, acknowledges it and would wait for ever.
    world.run(LOAN_TTL_MS + 2_000)
    expect(sharesOf(world, limit)).toEqual([600_000, 400_000])
  })

  it('between some regions lets the connected ones share what they have', () => {
    const three = aLimit({ weights: { a: 30, b: 30, c: 40 } })
    const world = aWorld(4, three, () => ({ a: 500, b: 50, c: 300 }))
    world.network.cutBoth('c', 'a')
    world.network.cutBoth('c', 'b')
    world.run(8_000)
    expect(sharesOf(world, three)[0]).toBeGreaterThan(500_000)
    expect(sharesOf(world, three)[2]).toBe(400_000)
  })
})

describe('a region that comes late', () => {
  it('gets a share within a lease while others hold the whole limit, which is never exceeded (B151)', () => {
    const limit = aLimit({ weights: { a: 50, b: 50, c: 0 } })
    // The world itself checks after every step that the shares sum to the pool at most.
    eachSeed(5, (seed) => {
      const lateMs = 12_000
      const world = aWorld(seed, limit, (nowMs) => ({
        a: 700,
        b: 700,
        c: nowMs > lateMs ? 400 : 0,
      }))
      for (const other of ['a', 'b']) world.network.cutBoth('c', other)
      world.run(lateMs)
      const [a = 0, b = 0, c = 0] = sharesOf(world, limit)
      expect([a + b, c]).toEqual([POOL_UNITS, 0])
      world.network.heal()
      world.run(LOAN_TTL_MS)
      expect(sharesOf(world, limit)[2]).toBeGreaterThan(9_000)
      expect(admittedIn(world, 1_000)).toBeLessThanOrEqual(1_001 + limit.burst)
    })
  })
})

describe('eventually, when the trouble ends', () => {
  it('every unit is in use again and every region knows the same loans', () => {
    eachSeed(20, (seed) => {
      const troubleMs = 25_000
      const { world } = runChaos({ seed, forMs: 110_000, troubleMs, calmMs: 30_000, isBrisk: true })
      for (const id of world.ids) {
        const shares = world.sites.map((site) => world.share(id, site.region))
        expect(sum(shares), `${id}: ${shares.join(' + ')}`).toBe(POOL_UNITS)
      }
      for (const { daemon } of world.sites) expect(daemon.state.keys.size).toBe(0)
      expect(world.planner.isComplete).toBe(true)
    })
  })
})
