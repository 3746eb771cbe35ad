import { describe, expect, it } from 'vitest'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { steadies, THOUSAND } from '../../simulation/sim/scenarios/scenario.ts'
import { soakWorld } from '../../simulation/sim/soak/soak-world.ts'
import { Loans } from '../../simulation/sim/strategies/loans.ts'
import { World } from '../../simulation/sim/world/world.ts'

const SPEC = {
  regions: 3,
  limit: THOUSAND,
  durationMs: 12_000,
  callers: steadies(900, 100, 100),
}

describe('the audit of shares (INV-2)', () => {
  it('finds nothing in a sound plane, and does look', () => {
    const world = new World(SPEC, 1, (of) => new Loans(of))
    const { violations, shares } = world.run()
    expect(violations).toEqual([])
    expect(shares.get(0, 200)).toBeGreaterThan(0.5)
  })

  it('finds a share that grew by no rule, with the next write anywhere', () => {
    const grow = (world: World): void =>
      world.at(6_000, () => {
        // A lender at rest: its own next write would put its share right again.
        world.withFaults(1, ({ redis }) => {
          for (const counter of redis?.image.counters.values() ?? []) {
            if (counter.share !== null) counter.share = { ...counter.share, home: POOL_UNITS }
          }
        })
      })
    const world = new World({ ...SPEC, events: grow }, 1, (of) => new Loans(of))
    const { violations } = world.run()
    const [first] = violations
    expect(first?.what).toContain('shares of')
    expect(first?.atMs).toBeLessThan(8_500)
  })
})

describe('random worlds', () => {
  it('repeat for a seed, and break nothing', () => {
    const outcome = soakWorld(17)
    expect(outcome.violations).toEqual([])
    expect(outcome.steps).toBeGreaterThan(1_000)
    expect(soakWorld(17)).toEqual(outcome)
  }, 60_000)
})
