import { assert } from './assert.ts'

/**
 * How many units make 100 % of a limit.
 *
 * One constant for every limit, whatever its capacity, so that raising or lowering a capacity moves no units
 * and needs no agreement between regions. Small capacities are kept exact by the rounding of `shareTokens`.
 */
export const POOL_UNITS = 1_000_000

/** Most regions of one plane. Part of the proof of `shareTokens`, so not a setting. */
export const REGIONS_MAX = 64

/**
 * Units that `shareTokens` forgives when it rounds down, times the capacity in tokens.
 *
 * A base of exactly t tokens is stored as floor(t * POOL_UNITS / capacity) units and may lack up to one unit;
 * this lets it still count as t tokens. It must stay under POOL_UNITS / REGIONS_MAX: then the forgiven parts
 * of all regions together are less than one token, and the sum of whole tokens cannot pass the capacity.
 */
export const ROUNDING_NUMERATOR = 15_624

/** Largest capacity and cost: the safe integers. */
export const TOKENS_MAX = Number.MAX_SAFE_INTEGER

/** Capacities up to this are split between regions in whole tokens; larger ones in units. */
export const WHOLE_TOKEN_SPLIT_MAX = 10_000

/** A bucket's burst is held in this part of a token, so that shares of small bursts stay exact. */
export const BURST_FRACTION = 8

/** From here on a double does not hold a token's fraction, and a sum with one could be rounded up. */
const FRACTION_TOKENS_MAX = 2 ** 49

/**
 * Whole tokens that `units` of a limit of `capacity` tokens come to.
 *
 * Guarantees: for any shares that sum to at most POOL_UNITS over at most REGIONS_MAX regions, the results sum
 * to at most `capacity`; and a base split in whole tokens gives exactly those tokens. The product is taken in
 * two parts because capacity * units can pass 2^53.
 */
export function shareTokens(capacity: number, units: number): number {
  assert(Number.isSafeInteger(capacity) && capacity >= 0, 'capacity is a safe integer')
  assert(Number.isInteger(units) && units >= 0 && units <= POOL_UNITS, 'units are within the pool')
  const high = Math.floor(capacity / POOL_UNITS)
  const low = capacity - high * POOL_UNITS
  return high * units + Math.floor((low * units + ROUNDING_NUMERATOR) / POOL_UNITS)
}

/**
 * Tokens that a bucket of `burst` tokens may hold under `units`, in eighths of a token; whole ones of bursts that leave
 * no room for a fraction.
 *
 * The same guarantee as `shareTokens`: the bursts of all regions sum to at most `burst`.
 */
export function shareBurst(burst: number, units: number): number {
  const high = Math.floor(burst / POOL_UNITS)
  const low = burst - high * POOL_UNITS
  const eighths = Math.floor((low * BURST_FRACTION * units + ROUNDING_NUMERATOR) / POOL_UNITS)
  const whole = high * units
  if (whole >= FRACTION_TOKENS_MAX) return whole + Math.floor(eighths / BURST_FRACTION)
  return whole + eighths / BURST_FRACTION
}

/** Fewest units that let a region admit one token of a limit of `capacity` tokens at once. */
export function unitsOfOneToken(capacity: number): number {
  return Math.min(POOL_UNITS, Math.ceil(POOL_UNITS / Math.max(1, capacity)))
}
