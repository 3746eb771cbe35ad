/** Runs that put one rule to the test: chaos rarely meets the one moment at which it matters. */
import { LOAN_TTL_MS } from '../../../shared/core/ledger/constants.ts'
import type { LedgerLimit } from '../../../shared/core/ledger/types.ts'
import { FAITHFUL, type Mutant } from '../mutants.ts'
import { FAIR } from './network.ts'
import { Random } from './random.ts'
import { aLimit, World, type WorldOptions } from './world.ts'

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

/** Records take two seconds each way, and then none arrives any more: what was on its way still does. */
export const cutSlowLink: Scenario = (seed, mutant = FAITHFUL) => {
  const world = new World({
    seed,
    mutant,
    regions: ['a', 'b'],
    limits: [aLimit({ weights: { a: 90, b: 10 } })],
    weather: { ...FAIR, delayMs: 2_000, jitterMs: 200 },
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) => (region === 'b' || nowMs > 15_000 ? 900 : 10),
  })
  world.run(15_000)
  world.network.cutBoth('a', 'b')
  world.run(16_000)
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

/**
 * A donor shrinks for an epoch while it has lent out more than it keeps; its borrower, cut off from all news, spends
 * the loan in the next window. The donor takes the units back in that window, in which a grower wants them.
 */
export const quarantineInEpoch: Scenario = (seed, mutant = FAITHFUL) => {
  const limit = aLimit({
    algorithm: 'fixed_window',
    windowMs: 15_000,
    weights: { a: 90, b: 10, c: 0 },
  })
  const world = new World({
    seed,
    mutant,
    regions: ['a', 'b', 'c'],
    limits: [limit],
    weather: FAIR,
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) =>
      region === 'b' ? 200 : region === 'c' && nowMs > 15_500 ? 200 : 0,
    isTold: (region, nowMs) => region !== 'b' || nowMs < 7_000 || nowMs > 45_000,
  })
  world.run(7_500)
  for (const other of ['a', 'c']) world.network.cutBoth('b', other)
  world.openEpoch(limit.id, { a: 10, b: 10, c: 80 })
  world.run(22_000)
  return world
}

/** A region with a loan out is certified to be gone while its borrower still uses that, and comes back later. */
export const removeLender: Scenario = (seed, mutant = FAITHFUL) =>
  removal(seed, mutant, aLimit({ weights: { a: 60, b: 20, c: 20 } }))

/** The same of a window: its units were spent in it, by the region and by its borrower. */
export const removeSpender: Scenario = (seed, mutant = FAITHFUL) => {
  const weights = { a: 60, b: 20, c: 20 }
  return removal(seed, mutant, aLimit({ algorithm: 'fixed_window', windowMs: 15_000, weights }))
}

function removal(seed: number, mutant: Mutant, limit: LedgerLimit): World {
  const rate = (limit.capacity * 1_000) / limit.windowMs
  const world = new World({
    seed,
    mutant,
    regions: ['a', 'b', 'c'],
    limits: [limit],
    weather: FAIR,
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) => (region === 'b' ? 2 : nowMs > 6_000 ? 1 : 0.1) * rate,
  })
  world.run(6_000)
  world.removeRegion('a', 20_000)
  world.run(40_000)
  return world
}

/**
 * A standby takes over a lender whose loan is out, and its records do not reach the borrower: it waits as long as
 * the loan can last. A leader that had lost its lease unawares would still be heard.
 */
export const takeOverLender: Scenario = (seed, mutant = FAITHFUL) => {
  const world = new World({ ...takeover(seed, mutant), weather: FAIR })
  world.run(8_000)
  world.network.cut('a', 'b')
  world.takeOver('a')
  world.run(20_000)
  return world
}

/** Standbys take over a borrower again and again over the fastest of links, and each swears off what is borrowed. */
export const takeOverBorrower: Scenario = (seed, mutant = FAITHFUL) => {
  const world = new World({
    ...takeover(seed, mutant),
    weather: { ...FAIR, delayMs: 1, jitterMs: 1 },
  })
  for (let turn = 0; turn < 4; turn++) {
    world.run(4_000)
    world.takeOver('b')
  }
  world.run(4_000)
  return world
}

function takeover(seed: number, mutant: Mutant): Omit<WorldOptions, 'weather'> {
  return {
    seed,
    mutant,
    regions: ['a', 'b'],
    limits: [aLimit({ weights: { a: 90, b: 10 } })],
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) => (region === 'b' || nowMs > 10_000 ? 900 : 10),
  }
}

/**
 * A borrower is heard no more while it hears its lender acknowledge the same record again and again, and every third
 * of its writes is in doubt: each time it goes on under a new fence.
 */
export const doubtUnheard: Scenario = (seed, mutant = FAITHFUL) => {
  const world = new World({ ...takeover(seed, mutant), weather: FAIR, doubt: 0.3 })
  world.run(8_000)
  world.network.cut('b', 'a')
  world.run(20_000)
  return world
}

/** Loans go to and fro every few seconds, over a store of which every tenth reply is lost. */
export const loseReplies: Scenario = (seed, mutant = FAITHFUL) =>
  toAndFro({ seed, mutant, weather: FAIR, doubt: 0.1 }, 2_500)

/** The same over slow links: what came home is lent again before the borrower's next record tells of the return. */
export const lendAgain: Scenario = (seed, mutant = FAITHFUL) =>
  toAndFro({ seed, mutant, weather: { ...FAIR, delayMs: 900, jitterMs: 100 } }, 1_200)

function toAndFro(
  setting: Pick<WorldOptions, 'seed' | 'weather'> & {
    readonly mutant: Mutant
    readonly doubt?: number
  },
  turnMs: number,
): World {
  const world = new World({
    ...setting,
    regions: ['a', 'b'],
    limits: [aLimit({ weights: { a: 50, b: 50 } })],
    trafficMs: 100,
    measureMs: 100,
    demand: (_id, region, nowMs) => {
      const isOfA = Math.floor(nowMs / turnMs) % 2 === 0
      return (region === 'a') === isOfA ? 1_500 : 20
    },
  })
  world.run(15_000)
  return world
}

/** A donor loses its memory once the base has moved away from it, and a copy of the plane has yet to follow. */
export const loseDonor: Scenario = (seed, mutant = FAITHFUL) => {
  const limit = aLimit({ weights: { a: 90, b: 10 } })
  const world = new World({ ...takeover(seed, mutant), weather: FAIR, limits: [limit] })
  world.run(4_000)
  world.openEpoch(limit.id, { a: 10, b: 90 })
  world.run(16_000)
  world.loseRegion('a', 50)
  world.run(8_000)
  return world
}
