/** Runs that put one rule to the test: chaos rarely meets the one moment at which it matters. */
import { LOAN_TTL_MS } from '../../../shared/core/ledger/constants.ts'
import { FAITHFUL, type Mutant } from '../mutants.ts'
import { FAIR } from './network.ts'
import { Random } from './random.ts'
import { aLimit, World } from './world.ts'

export type Scenario = (seed: number, mutant?: Mutant) => World

/**
 * A borrower that hears nothing lapses and says so; the link heals in that very moment, so an acknowledgement
 * from before the lender knew arrives after.
 */
export const healAtLapse: Scenario = (seed, mutant = FAITHFUL) => {
  const random = new Random(seed)
  const world = new World({
    seed,
    mutant,
    regions: ['a', 'b'],
    limits: [aLimit({ weights: { a: 90, b: 10 } })],
    weather: { ...FAIR, delayMs: 200, jitterMs: 200 },
    trafficMs: 100,
    measureMs: 100,
    hasDrift: false,
    demand: (_id, region, nowMs) => (region === 'b' ? 900 : nowMs > 12_000 ? 900 : 10),
  })
  world.run(6_000)
  world.network.cut('a', 'b')
  // The lease dates from the last record acknowledged, up to a tick and a round trip before the cut.
  world.run(LOAN_TTL_MS - random.between(-1_000, 3_000))
  world.network.heal()
  world.run(4_000)
  return world
}

/** A borrower spends what it borrowed of a long window and is cut off; the window goes on after its lease. */
export const cutInLongWindow: Scenario = (seed, mutant = FAITHFUL) => {
  const limit = aLimit({
    algorithm: 'fixed_window',
    windowMs: 60_000,
    weights: { a: 90, b: 10 },
  })
  const world = new World({
    seed,
    mutant,
    regions: ['a', 'b'],
    limits: [limit],
    weather: FAIR,
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) =>
      region === 'b' ? (nowMs < 8_000 ? 200 : 0) : nowMs > 10_000 ? 100 : 0,
  })
  world.run(8_000)
  world.network.cutBoth('a', 'b')
  world.run(50_000)
  return world
}

/** A lender loses its memory while its borrower is cut off from it, and a third region hears and answers it. */
export const loseLenderOfCutBorrower: Scenario = (seed, mutant = FAITHFUL) => {
  const world = new World({
    seed,
    mutant,
    regions: ['a', 'b', 'c'],
    limits: [aLimit({ weights: { a: 80, b: 10, c: 10 } })],
    weather: FAIR,
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) =>
      region === 'b' || (region === 'a' && nowMs > 8_000) ? 900 : 10,
  })
  world.run(8_000)
  world.network.cutBoth('a', 'b')
  world.loseRegion('a', 50)
  world.run(6_000)
  return world
}
