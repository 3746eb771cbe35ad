/**
 * The bounded worlds that are searched, and the one in which each broken rule shows soonest.
 *
 * Loan time 2 ticks, lender's wait 3, clocks apart by a tick a loan; the pool is at most 3 units. INV-1 speaks of
 * one lender and one borrower, so the worlds in which only A has units are the deepest: they afford crashes and
 * more records in flight. Where a world has more states than `statesMax`, the search ends after a whole number
 * of actions and says so; the verdict is then about all histories of at most so many.
 */
import type { Mutant } from './mutants.ts'
import type { Scope } from './state.ts'

/** A scope, how many of its states to look at, and what it is there for. */
export interface Plan {
  readonly scope: Scope
  readonly statesMax: number
}

/** States that take some ten seconds and 200 MB: larger worlds are searched as deep as that goes. */
const STATES_MAX = 350_000

/** For two worlds that are worth being searched to the end. */
const STATES_MAX_LARGE = 1_100_000

function scope(name: string, base: readonly number[], more: Partial<Scope> = {}): Scope {
  return {
    name,
    base,
    nextBase: null,
    floor: base.map(() => 0),
    ttl: 2,
    lenderWait: 3,
    slack: 1,
    inFlightMax: 1,
    restartsMax: 0,
    lossesMax: 0,
    ...more,
  }
}

export const ONE_LENDER = scope('one-lender', [1, 0])
const ONE_LENDER_LOSS = scope('one-lender-loss', [1, 0], { lossesMax: 1 })
const ONE_LENDER_RESTART = scope('one-lender-restart', [1, 0], { restartsMax: 1 })
const TWO_UNITS = scope('two-units', [2, 0])
const BOTH_LEND = scope('both-lend', [1, 1])
const THREE_UNITS = scope('three-units', [2, 1])
const TWO_IN_FLIGHT = scope('two-in-flight', [1, 0], { inFlightMax: 2 })
const THREE_IN_FLIGHT = scope('three-in-flight', [1, 0], { inFlightMax: 3 })
const FLOOR_LOSS = scope('floor-loss', [2, 0], { floor: [1, 0], lossesMax: 1 })
const EPOCH = scope('epoch', [1, 0], { nextBase: [0, 1] })
const EPOCH_LOSS = scope('epoch-loss', [1, 0], { nextBase: [0, 1], lossesMax: 1 })
const EPOCH_RESTART = scope('epoch-restart', [1, 0], { nextBase: [0, 1], restartsMax: 1 })
const EPOCH_FLOOR = scope('epoch-floor', [3, 0], {
  nextBase: [2, 1],
  floor: [1, 0],
  lossesMax: 1,
})
const BOTH_CRASHES = scope('both-crashes', [1, 0], {
  inFlightMax: 2,
  restartsMax: 1,
  lossesMax: 1,
})
const THREE_REGIONS = scope('three-regions', [1, 0, 0])
const THREE_REGIONS_LOSS = scope('three-regions-loss', [1, 0, 0], { lossesMax: 1 })
const THREE_BASES = scope('three-bases', [1, 1, 1])
const THREE_EPOCH = scope('three-epoch', [1, 1, 0], { nextBase: [0, 1, 1] })

/** What `npm run exhaustive` searches, those that it searches to the end first. */
export const PLANS: readonly Plan[] = [
  { scope: ONE_LENDER, statesMax: STATES_MAX },
  { scope: ONE_LENDER_LOSS, statesMax: STATES_MAX },
  { scope: ONE_LENDER_RESTART, statesMax: STATES_MAX },
  { scope: TWO_UNITS, statesMax: STATES_MAX },
  { scope: EPOCH, statesMax: STATES_MAX },
  { scope: BOTH_LEND, statesMax: STATES_MAX_LARGE },
  { scope: TWO_IN_FLIGHT, statesMax: STATES_MAX_LARGE },
  { scope: THREE_UNITS, statesMax: STATES_MAX },
  { scope: THREE_IN_FLIGHT, statesMax: STATES_MAX },
  { scope: BOTH_CRASHES, statesMax: STATES_MAX },
  { scope: FLOOR_LOSS, statesMax: STATES_MAX },
  { scope: EPOCH_LOSS, statesMax: STATES_MAX },
  { scope: EPOCH_RESTART, statesMax: STATES_MAX },
  { scope: EPOCH_FLOOR, statesMax: STATES_MAX },
  { scope: THREE_REGIONS, statesMax: STATES_MAX },
  { scope: THREE_REGIONS_LOSS, statesMax: STATES_MAX },
  { scope: THREE_BASES, statesMax: STATES_MAX },
  { scope: THREE_EPOCH, statesMax: STATES_MAX },
]

/** Where each broken rule is looked for. */
export const MUTANT_SCOPES: Readonly<Record<Mutant, Scope>> = {
  'lease-dated-at-receipt': ONE_LENDER,
  'no-drift-margin': ONE_LENDER,
  'amnesia-without-wait': ONE_LENDER_LOSS,
  'loan-not-addressed': ONE_LENDER_LOSS,
  'returns-not-term-scoped': ONE_LENDER,
  'delta-grants': ONE_LENDER,
  'revives-lapsed-term': ONE_LENDER,
  'growers-do-not-wait': EPOCH,
  'adopts-without-room-for-floor': EPOCH_FLOOR,
  'donor-adopts-with-loans-out': EPOCH,
  'publishes-before-shrink': TWO_UNITS,
  'returns-before-shrink': ONE_LENDER,
  'lends-borrowed-units': BOTH_LEND,
  'lends-while-recovering': THREE_REGIONS_LOSS,
  'restart-forgets-waiting': ONE_LENDER_RESTART,
  'reclaims-without-waiting': ONE_LENDER,
  'amnesiac-uses-old-base': EPOCH_LOSS,
  'amnesiac-adopts-early': EPOCH_LOSS,
  'lends-anew-over-open-loans': BOTH_CRASHES,
}
