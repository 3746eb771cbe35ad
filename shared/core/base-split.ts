/**
 * How a limit is split between regions, and how units change hands when that split does.
 *
 * Every function here gives the same answer in every region and in admin: they are what lets a base epoch need
 * no message but "adopted".
 */
import { assert } from './assert.ts'
import { type Algorithm, type BaseSplit, hasBurst, type RegionId } from './policy.ts'
import { POOL_UNITS, REGIONS_MAX, unitsOfOneToken, WHOLE_TOKEN_SPLIT_MAX } from './units.ts'

/** Parts of a whole by region. Regions are taken in the order of their names wherever order matters. */
export type Weights = Readonly<Record<RegionId, number>>

/** Units that one region hands to another between two base splits. */
export interface Transfer {
  readonly from: RegionId
  readonly to: RegionId
  readonly units: number
}

/**
 * The base units of each region that has a part; always sums to POOL_UNITS.
 *
 * Capacities up to WHOLE_TOKEN_SPLIT_MAX are split in whole tokens, so that no region's part ends in a fraction
 * that it could never admit; larger ones in units. Largest remainder, ties to the region named first.
 */
export function splitBase(weights: Weights, capacity: number): BaseSplit {
  // Nothing can be split in tokens, and its parts matter again once the capacity is raised.
  if (capacity === 0 || capacity > WHOLE_TOKEN_SPLIT_MAX)
    return withoutZeros(apportion(weights, POOL_UNITS))
  return tokensToUnits(apportion(weights, capacity), capacity)
}

/** Whole tokens by region as units of the pool; the tokens sum to `capacity`, the units to POOL_UNITS. */
export function tokensToUnits(tokens: Weights, capacity: number): BaseSplit {
  const units: Record<RegionId, number> = {}
  let left = POOL_UNITS
  for (const region of regionsOf(tokens)) {
    // Each rounds down by less than a unit; the first region's part takes up what that leaves, under 64 units.
    const part = Math.floor(((tokens[region] ?? 0) * POOL_UNITS) / capacity)
    if (part > 0) units[region] = part
    left -= part
  }
  const [first] = regionsOf(units)
  assert(first !== undefined, 'some region has a part of the capacity')
  units[first] = (units[first] ?? 0) + left
  return units
}

/**
 * Splits `total` by weight into whole parts that sum to it exactly: each gets its quota rounded down, and the
 * largest remainders one more, ties to the region named first. A weight of 0 never gets anything.
 */
export function apportion(weights: Weights, total: number): Readonly<Record<RegionId, number>> {
  const regions = regionsOf(weights)
  const parts = apportionInOrder(
    regions.map((region) => weights[region] ?? 0),
    total,
  )
  return Object.fromEntries(regions.map((region, index) => [region, parts[index] ?? 0]))
}

/** The same for a list; ties to the first. */
export function apportionInOrder(weights: readonly number[], total: number): readonly number[] {
  const sum = weights.reduce((all, weight) => all + weight, 0)
  assert(sum > 0 && Number.isFinite(sum), 'some weight is positive and all are finite')
  assert(Number.isSafeInteger(total) && total >= 0, 'the total is a whole number')
  const quotas = weights.map((weight) => (total * weight) / sum)
  const parts = quotas.map(Math.floor)
  let left = total - parts.reduce((all, whole) => all + whole, 0)
  const remainderOf = (index: number): number => (quotas[index] ?? 0) - (parts[index] ?? 0)
  // The sort is stable, so equal remainders stay in order.
  const favoured = [...weights.keys()]
    .filter((index) => (weights[index] ?? 0) > 0)
    .map((index) => ({ index, remainder: remainderOf(index) }))
    .sort((one, other) => other.remainder - one.remainder)
  for (const { index } of favoured) {
    if (left <= 0) break
    parts[index] = (parts[index] ?? 0) + 1
    left -= 1
  }
  assert(left === 0, 'the parts sum to the total')
  return parts
}

/**
 * Which region hands how many units to which when `from` becomes `to`: decreases matched to increases in the
 * order of names (north-west corner). A grower counts a part only once the donor said that it adopted.
 */
export function planTransfers(from: BaseSplit, to: BaseSplit): readonly Transfer[] {
  const changes = regionsOf({ ...from, ...to }).map((region) => ({
    region,
    units: (to[region] ?? 0) - (from[region] ?? 0),
  }))
  const donors = changes
    .filter(({ units }) => units < 0)
    .map(({ region, units }) => ({ region, units: -units }))
  return matchInOrder(
    donors,
    changes.filter(({ units }) => units > 0),
  )
}

/**
 * Matches what some have to what others need, both in the given order, until one side is used up.
 *
 * Whole units only: a side is left behind when it is exactly zero, never for a remainder too small to matter,
 * which would starve the other side.
 */
export function matchInOrder(
  givers: readonly { readonly region: RegionId; readonly units: number }[],
  takers: readonly { readonly region: RegionId; readonly units: number }[],
): readonly Transfer[] {
  const transfers: Transfer[] = []
  const needs = takers.filter((taker) => taker.units > 0).map((taker) => ({ ...taker }))
  for (const giver of givers) {
    let left = giver.units
    while (left > 0) {
      const need = needs[0]
      if (need === undefined) return transfers
      const units = Math.min(left, need.units)
      transfers.push({ from: giver.region, to: need.region, units })
      left -= units
      need.units -= units
      if (need.units === 0) needs.shift()
    }
  }
  return transfers
}

/** What decides a region's floor. */
export interface FloorRule {
  readonly floorPercent: number
  readonly algorithm: Algorithm
  readonly capacity: number
  readonly burst: number
}

/**
 * Part of a region's base that it never lends, so that its first callers need no round trip: a percentage of
 * it, and at least one token's worth. Grows by at most what the base grows: a region that lost its memory may
 * use the floor of any larger base without touching what it had lent.
 */
export function floorOf(base: number, rule: FloorRule): number {
  if (base === 0 || rule.floorPercent === 0) return 0
  const percent = Math.ceil((base * rule.floorPercent) / 100)
  return Math.min(base, Math.max(percent, unitsOfOneToken(tokensAtOnce(rule))))
}

/** Most tokens that a limit admits at one instant: the burst of a bucket, a window's whole capacity. */
export function tokensAtOnce(rule: Omit<FloorRule, 'floorPercent'>): number {
  return hasBurst(rule.algorithm) ? rule.burst : rule.capacity
}

/** In the order of their names by code unit, which is the same everywhere. */
export function regionsOf(parts: Readonly<Record<RegionId, unknown>>): readonly RegionId[] {
  const regions = Object.keys(parts).sort()
  assert(regions.length <= REGIONS_MAX, `at most ${REGIONS_MAX} regions share a limit`)
  return regions
}

function withoutZeros(parts: Readonly<Record<RegionId, number>>): BaseSplit {
  return Object.fromEntries(Object.entries(parts).filter(([, units]) => units > 0))
}
