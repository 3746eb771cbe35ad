/** Looks for a run that shows each broken variant to be broken. What nothing shows is a rule that is not tested. */
import { play } from './enforcement/drama.ts'
import { ENFORCEMENT_MUTANTS } from './enforcement/mutants.ts'
import { runChaos } from './model/chaos.ts'
import { Violation } from './model/checks.ts'
import {
  cutInLongWindow,
  cutSlowLink,
  doubtUnheard,
  healAtLapse,
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
