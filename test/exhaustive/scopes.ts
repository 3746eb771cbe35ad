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

/** More than the worlds have that are searched to the end; a million states take a minute and 500 MB. */
const TO_THE_END = 1_100_000

/** Worlds larger than that are searched about this far. */
const IN_PART = 150_000

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
const REMOVAL = scope('removal', [1, 0], { nextBase: [0, 1], isCertified: true })
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
  { scope: ONE_LENDER, statesMax: TO_THE_END },
  { scope: ONE_LENDER_LOSS, statesMax: TO_THE_END },
  { scope: ONE_LENDER_RESTART, statesMax: TO_THE_END },
  { scope: TWO_UNITS, statesMax: TO_THE_END },
  { scope: BOTH_LEND, statesMax: TO_THE_END },
  { scope: TWO_IN_FLIGHT, statesMax: TO_THE_END },
  { scope: THREE_UNITS, statesMax: IN_PART },
  { scope: THREE_IN_FLIGHT, statesMax: IN_PART },
  { scope: BOTH_CRASHES, statesMax: IN_PART },
  { scope: FLOOR_LOSS, statesMax: IN_PART },
  { scope: EPOCH, statesMax: IN_PART },
  { scope: REMOVAL, statesMax: IN_PART },
  { scope: EPOCH_LOSS, statesMax: IN_PART },
  { scope: EPOCH_RESTART, statesMax: IN_PART },
  { scope: EPOCH_FLOOR, statesMax: IN_PART },
  { scope: THREE_REGIONS, statesMax: IN_PART },
  { scope: THREE_REGIONS_LOSS, statesMax: IN_PART },
  { scope: THREE_BASES, statesMax: IN_PART },
  { scope: THREE_EPOCH, statesMax: IN_PART },
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
  'restart-forgets-waiting': ONE_LENDER_RESTART,
  'reclaims-without-waiting': ONE_LENDER,
  'amnesiac-uses-old-base': EPOCH_LOSS,
  'amnesiac-adopts-early': EPOCH_LOSS,
  'certificate-counts-at-once': REMOVAL,
  'recovers-without-an-answer': ONE_LENDER_LOSS,
  'answers-without-letting-go': ONE_LENDER_LOSS,
}
