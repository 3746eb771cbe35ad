/** Looks for a run that shows each broken variant to be broken. What nothing shows is a rule that is not tested. */
import { play } from './enforcement/drama.ts'
import { ENFORCEMENT_MUTANTS } from './enforcement/mutants.ts'
import {
  BUCKET_LEASE_MUTANTS,
  overrunsBucket,
  overrunsWindow,
  WINDOW_LEASE_MUTANTS,
} from './leases/mutants.ts'
import { runChaos } from './model/chaos.ts'
import { Violation } from './model/checks.ts'
import {
  cutInLongWindow,
  cutSlowLink,
  doubtUnheard,
  healAtLapse,
  lendAgain,
  loseDonor,
  loseLenderOfCutBorrower,
  loseReplies,
  quarantineInEpoch,
  removeLender,
  removeSpender,
  type Scenario,
  takeOverBorrower,
  takeOverLender,
} from './model/scenarios.ts'
import { MUTANTS, type Mutant, type MutantName } from './mutants.ts'
import { REGION_MUTANTS } from './region-mutants.ts'
import {
  Overspent,
  runStock,
  STOCK_MUTANTS,
  STOCK_STEPS,
  type Mutant as StockMutant,
} from './stock/model.ts'

/** One rule left out, and how to look for a run that shows it. */
export interface Hunt {
  readonly part: string
  /** The rule that is left out. */
  readonly rule: string
  /** True when the run of this seed breaks a promise. */
  readonly isCaught: (seed: number) => boolean
  /** More seeds than these are not tried: the rule counts as untested. */
  readonly seedsMax: number
}

const chaos: Scenario = (seed, mutant = {}) => runChaos({ seed, forMs: 40_000, mutant }).world

/** Rules that matter only in a moment which chaos meets too rarely. */
const SCENARIOS: Partial<Record<MutantName, Scenario>> = {
  'a lease is dated by the receipt of the acknowledgement': cutSlowLink,
  'a lapsed term is revived by a late acknowledgement': healAtLapse,
  'units of a lapsed loan are not quarantined': cutInLongWindow,
  'a write without a reply counts as done': loseReplies,
  'a late write of an older fence is not refused': loseReplies,
  'a leader goes on without its lease': takeOverLender,
  'sequence numbers are used again and fences do not tell them apart': doubtUnheard,
  'a term is told to be dead before the share is smaller': takeOverBorrower,
  'a donor adopts although units of it are quarantined': quarantineInEpoch,
  'a certificate of removal counts at once': removeSpender,
  'a region that was removed comes back with its state': removeLender,
  'a recovery ends with the answers of a majority': loseLenderOfCutBorrower,
  'returns are not scoped by the birth of their row': lendAgain,
  'a region that lost its memory is told of an older base split': loseDonor,
}

const LEDGER_SEEDS_MAX = 60
const ENFORCEMENT_SEEDS_MAX = 2_000

export const LEDGER_HUNTS: readonly Hunt[] = Object.entries(MUTANTS).map(([rule, mutant]) => {
  const scenario = Object.entries(SCENARIOS).find(([of]) => of === rule)?.[1] ?? chaos
  const isCaught = (seed: number): boolean => breaks(scenario, seed, mutant)
  return { part: 'ledger', rule, isCaught, seedsMax: LEDGER_SEEDS_MAX }
})

export const ENFORCEMENT_HUNTS: readonly Hunt[] = Object.entries(ENFORCEMENT_MUTANTS).map(
  ([rule, { algorithm, mutant }]) => {
    const isCaught = (seed: number): boolean => play(algorithm, seed, mutant) > 0
    return { part: 'enforcement', rule, isCaught, seedsMax: ENFORCEMENT_SEEDS_MAX }
  },
)

const REGION_SEEDS_MAX = 20

export const REGION_HUNTS: readonly Hunt[] = Object.entries(REGION_MUTANTS).map(
  ([rule, { mutant, workload }]) => {
    const isCaught = (seed: number): boolean => workload(seed, mutant)
    return { part: 'region', rule, isCaught, seedsMax: REGION_SEEDS_MAX }
  },
)

const LEASE_SEEDS_MAX = 400

export const LEASE_HUNTS: readonly Hunt[] = [
  ...Object.entries(BUCKET_LEASE_MUTANTS).map(([rule, broken]) => ({
    rule,
    isCaught: (seed: number): boolean => overrunsBucket(seed, broken),
  })),
  ...Object.entries(WINDOW_LEASE_MUTANTS).map(([rule, broken]) => ({
    rule,
    isCaught: (seed: number): boolean => overrunsWindow(seed, broken),
  })),
].map((one) => ({ ...one, part: 'leases', seedsMax: LEASE_SEEDS_MAX }))

/** Most are found within ten; the rarest takes some hundreds. */
const STOCK_SEEDS_MAX = 1_000

export const STOCK_HUNTS: readonly Hunt[] = (Object.keys(STOCK_MUTANTS) as StockMutant[]).map(
  (name) => ({
    part: 'stock',
    rule: STOCK_MUTANTS[name],
    isCaught: (seed) => isOverspent(seed, name),
    seedsMax: STOCK_SEEDS_MAX,
  }),
)

function isOverspent(seed: number, mutant: StockMutant): boolean {
  try {
    runStock(seed, STOCK_STEPS, mutant)
    return false
  } catch (err) {
    if (err instanceof Overspent) return true
    throw err
  }
}

/** The first seed that catches it; null when none does. */
export function hunt({ isCaught, seedsMax }: Hunt): number | null {
  for (let seed = 1; seed <= seedsMax; seed++) if (isCaught(seed)) return seed
  return null
}

/** Some variants break an assertion of the code before a promise of the protocol: caught, too. */
function breaks(scenario: Scenario, seed: number, mutant: Mutant): boolean {
  try {
    scenario(seed, mutant)
    return false
  } catch (err) {
    if (err instanceof Violation || (err instanceof Error && err.name === 'AssertionError')) {
      return true
    }
    throw err
  }
}

/** Everything that `npm run mutants` looks for. */
export const HUNTS: readonly Hunt[] = [
  ...LEDGER_HUNTS,
  ...REGION_HUNTS,
  ...ENFORCEMENT_HUNTS,
  ...LEASE_HUNTS,
  ...STOCK_HUNTS,
]
