/** Rules of enforcement, each left out: what a share, a deadline, a restart and an edge mean for a counter. */
import type { Share } from '../../../shared/core/algorithms/algorithm.ts'
import type { WindowState } from '../../../shared/core/algorithms/fixed-window.ts'
import type { BucketState, SettledBucket } from '../../../shared/core/algorithms/token-bucket.ts'
import { termsOf } from '../../../shared/core/algorithms/token-bucket.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import type { ArenaLimit } from './arena.ts'
import { type EnforcementMutant, type Moment, type Written, writeFaithfully } from './counter.ts'

export interface NamedMutant {
  readonly algorithm: ArenaLimit['algorithm']
  readonly mutant: EnforcementMutant
}

/** Sees the same moment under another share. */
function underShare(moment: Moment, change: (share: Share) => Share): Moment {
  const { share } = moment.circumstances
  if (share === null) return moment
  return { ...moment, circumstances: { ...moment.circumstances, share: change(share) } }
}

function withoutBoot(moment: Moment): Moment {
  const { circumstances } = moment
  return {
    ...moment,
    circumstances: { ...circumstances, boot: { ...circumstances.boot, startUs: 0 } },
  }
}

/** The state stays as it is, so all time since its last use is refilled under the share that comes next. */
function writesLazily(moment: Moment, share: Share, shrinks: boolean): Written {
  const { state } = moment
  return state === null ? writeFaithfully(moment, share, shrinks) : { state }
}

/** As GCRA would that keeps its theoretical arrival time: what is missing is kept as time, not as tokens. */
function keepsTime(moment: Moment, share: Share): Written {
  const { algorithm, state, circumstances } = moment
  const before = algorithm.settle(state, circumstances) as SettledBucket
  const after = algorithm.resize(before, share, false) as SettledBucket
  const tokens = before.remaining + before.fraction
  const missing = before.terms.capWhole + before.terms.capFraction - tokens
  const time = before.terms.ratePerUs > 0 ? missing / before.terms.ratePerUs : 0
  const most = after.terms.capWhole + after.terms.capFraction
  const level = Math.max(0, most - time * after.terms.ratePerUs)
  const whole = Math.floor(level)
  return { state: { ...(algorithm.store(after) as BucketState), whole, fraction: level - whole } }
}

/** A share that grew brings the burst that it would have had. */
function mintsOnGrowth(moment: Moment, share: Share, shrinks: boolean): Written {
  const written = writeFaithfully(moment, share, shrinks)
  const { limit, nowUs, share: old } = moment.circumstances
  if (written === null || shrinks) return written
  const unitsOf = (of: Share | null): number =>
    of === null ? limit.home : of.home + (nowUs < of.expUs ? of.borrowed : 0)
  const grown = Math.max(0, unitsOf(share) - unitsOf(old))
  const state = written.state as BucketState
  const { capWhole } = termsOf(limit, Math.min(POOL_UNITS, unitsOf(share)))
  const whole = Math.min(capWhole, state.whole + Math.floor((limit.burst * grown) / POOL_UNITS))
  return { state: { ...state, whole } }
}

/** A smaller limit meets what a bucket held under the larger one. */
function keepsTokens(moment: Moment): Moment {
  const { circumstances, state } = moment
  const { limit } = circumstances
  if (state === null || limit.previous === null) return moment
  const burst = Math.max(limit.burst, limit.previous.burst)
  return { ...moment, circumstances: { ...circumstances, limit: { ...limit, burst } } }
}

/** The oldest admissions are forgotten a quarter of a window early. */
function forgetsOldest(moment: Moment): Moment {
  const { circumstances } = moment
  const { limit } = circumstances
  const short = { ...limit, windowMs: limit.windowMs * 0.75 }
  return { ...moment, circumstances: { ...circumstances, limit: short } }
}

/** A window that was lost in part lends what it may have spent. */
function lendsUnknown(moment: Moment, share: Share, shrinks: boolean): Written {
  const known = writeFaithfully(moment, share, shrinks)
  return known ?? writeFaithfully(withoutBoot(moment), share, shrinks)
}

/** What was admitted under a share that has shrunk since does not count for the next. */
function shrinksFreely(moment: Moment, share: Share): Written {
  return writeFaithfully(moment, share, false)
}

/** By the rule that each leaves out. */
export const ENFORCEMENT_MUTANTS: Readonly<Record<string, NamedMutant>> = {
  'time before a share was written refills under it': {
    algorithm: 'token_bucket',
    mutant: { writes: writesLazily },
  },
  'a bucket stays absent when its share grows': {
    algorithm: 'token_bucket',
    mutant: {
      writes: (moment, share, shrinks) =>
        moment.state === null ? { state: null } : writeFaithfully(moment, share, shrinks),
    },
  },
  'a bucket is full after a restart': {
    algorithm: 'token_bucket',
    mutant: { sees: withoutBoot },
  },
  'what is missing of a bucket is kept as time when its rate changes': {
    algorithm: 'token_bucket',
    mutant: { writes: keepsTime },
  },
  'a share that grows brings its tokens with it': {
    algorithm: 'token_bucket',
    mutant: { writes: mintsOnGrowth },
  },
  'a bucket is forgotten before it is full': {
    algorithm: 'token_bucket',
    mutant: { keepPart: 0.25 },
  },
  'time before an edit refills under the edited limit': {
    algorithm: 'token_bucket',
    mutant: {
      sees: (moment) => {
        const { circumstances } = moment
        const limit = { ...circumstances.limit, previous: null, changedAtUs: 0 }
        return { ...moment, circumstances: { ...circumstances, limit } }
      },
    },
  },
  'a bucket keeps the burst of a limit that was lowered': {
    algorithm: 'token_bucket',
    mutant: { sees: keepsTokens },
  },
  'borrowed units refill a bucket past their deadline': {
    algorithm: 'token_bucket',
    mutant: {
      sees: (moment) =>
        underShare(moment, (share) => ({
          ...share,
          expUs: Math.max(share.expUs, moment.circumstances.nowUs),
        })),
    },
  },
  ...onBoth('borrowed units are used past their deadline', {
    sees: (moment) => underShare(moment, (share) => ({ ...share, expUs: Number.MAX_SAFE_INTEGER })),
  }),
  'a region that lost its memory uses its base at once': {
    algorithm: 'token_bucket',
    mutant: { recoversAtOnce: true },
  },
  'a window that began before a restart is empty': {
    algorithm: 'fixed_window',
    mutant: { sees: withoutBoot },
  },
  'a region lends of a window that it knows in part': {
    algorithm: 'fixed_window',
    mutant: { writes: lendsUnknown },
  },
  'a share shrinks below what its window has spent': {
    algorithm: 'fixed_window',
    mutant: { writes: shrinksFreely },
  },
  'a share shrinks below what its sliding window has spent': {
    algorithm: 'sliding_log',
    mutant: { writes: shrinksFreely },
  },
  'a sliding window forgets what counts still': {
    algorithm: 'sliding_window',
    mutant: { sees: forgetsOldest },
  },
  'a sliding window that may have been lost is empty': {
    algorithm: 'sliding_log',
    mutant: { sees: withoutBoot },
  },
  'units of a sliding window come home before it has passed': {
    algorithm: 'sliding_window',
    mutant: { regrowsAtOnce: true },
  },
  'a window that has just begun forgets the one before': {
    algorithm: 'fixed_window',
    mutant: {
      writes: (moment, share, shrinks) => {
        const { algorithm, state, circumstances } = moment
        const settled = algorithm.settle(state, circumstances)
        const forgotten = { ...(algorithm.store(settled) as WindowState), previous: 0 }
        return writeFaithfully({ ...moment, state: forgotten }, share, shrinks)
      },
    },
  },
  'units of a window come home before it has ended': {
    algorithm: 'fixed_window',
    mutant: { regrowsAtOnce: true },
  },
}

function onBoth(name: string, mutant: EnforcementMutant): Record<string, NamedMutant> {
  return {
    [`${name} (bucket)`]: { algorithm: 'token_bucket', mutant },
    [`${name} (window)`]: { algorithm: 'fixed_window', mutant },
  }
}
