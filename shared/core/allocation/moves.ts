/**
 * Which units should change hands, given who has and who should have what.
 *
 * Units move only when somebody is short: surplus stays where it is otherwise, and noise moves nothing. All
 * regions match all surpluses to all needs in the same order and each does its own part, so several can give at
 * once without giving too much; where their views differ the next round corrects it.
 */
import { matchInOrder, type Transfer } from '../base-split.ts'
import type { RegionId } from '../policy.ts'
import { POOL_UNITS } from '../units.ts'
import { type AllocatedLimit, type Claim, needOf, type Target } from './allocator.ts'

/** Surplus that is not worth a move: this while some region denies, the other while none does. */
const SURPLUS_MIN_HUNGRY = POOL_UNITS / 200
const SURPLUS_MIN = (POOL_UNITS * 3) / 100

/** Needs below this are noise; a loan for them would cost a row in each record. */
const NEED_MIN = POOL_UNITS / 2_000

/** Transfers that would bring the claims to their targets, and what is left over where. */
export interface MovePlan {
  readonly transfers: readonly Transfer[]
  /** Regions that are short of what they need. */
  readonly short: readonly RegionId[]
  /** Regions with more than their target, by more than is left alone. */
  readonly donors: readonly RegionId[]
}

/** True when some region needs more than it has: only then can there be anything to move. */
export function isAnyShort(claims: readonly Claim[], limit: AllocatedLimit): boolean {
  return claims.some((claim) => {
    const need = Math.max(claim.floor, needOf(claim.demand, limit))
    return claim.share + needMin(need) <= need
  })
}

export function planMoves(claims: readonly Claim[], targets: readonly Target[]): MovePlan {
  const takers: Side[] = []
  const holders: Side[] = []
  let isAnyEmpty = false
  for (let index = 0; index < targets.length; index++) {
    const { region, need, target } = targets[index] ?? NO_TARGET
    const share = shareAt(claims, region, index)
    if (share > target) holders.push({ region, units: share - target })
    if (share + needMin(need) > Math.min(need, target)) continue
    takers.push({ region, units: target - share })
    isAnyEmpty ||= share === 0
  }
  const surplusMin = isAnyEmpty ? 0 : leastSurplus(claims)
  const donors = holders.filter(({ units }) => units > surplusMin)
  return {
    transfers: matchInOrder(donors, takers),
    short: takers.map(({ region }) => region),
    donors: donors.map(({ region }) => region),
  }
}

interface Side {
  readonly region: RegionId
  readonly units: number
}

const NO_TARGET: Target = { region: '', target: 0, need: 0 }

/** What a region claims to have: claims are nearly always in the order of targets. */
function shareAt(claims: readonly Claim[], region: RegionId, index: number): number {
  const same = claims[index]
  const claim = same?.region === region ? same : claims.find((one) => one.region === region)
  return claim?.share ?? 0
}

/** Not asked for where a region has nothing at all: what it is due may be little from each of many. */
function leastSurplus(claims: readonly Claim[]): number {
  return claims.some((claim) => claim.hungry) ? SURPLUS_MIN_HUNGRY : SURPLUS_MIN
}

/** A region that holds nothing at all may need less than NEED_MIN and still be unable to admit anything. */
function needMin(need: number): number {
  return Math.max(1, Math.min(NEED_MIN, need))
}
