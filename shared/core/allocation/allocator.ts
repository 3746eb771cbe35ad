/**
 * Who should have how much of a limit, of the regions in reach: weighted max-min fairness, or parts in proportion to
 * demand where the policy asks for that.
 *
 * The same pure function runs in every region on its own view. Targets depend on demand and bases only, never on
 * present shares, so there is no loop that could ring; a constant demand has one constant answer.
 */
import { assert } from '../assert.ts'
import { apportionInOrder, tokensAtOnce } from '../base-split.ts'
import { type Algorithm, hasBurst, type Objective, type RegionId } from '../policy.ts'
import { POOL_UNITS, REGIONS_MAX, unitsOfOneToken, WHOLE_TOKEN_SPLIT_MAX } from '../units.ts'
import { paceMs } from './demand.ts'

/** What one region brings to the table for one key. Units, except `demand`: tokens a second. */
export interface Claim {
  readonly region: RegionId
  readonly base: number
  readonly floor: number
  /** What the region may use at present, units on their way to it included. */
  readonly share: number
  readonly demand: number
  readonly hungry: boolean
}

/** The numbers of a limit that turn demand into units. */
export interface AllocatedLimit {
  readonly algorithm: Algorithm
  readonly capacity: number
  readonly windowMs: number
  readonly burst: number
  /** What is fair when there is too little for all; `max-min` when left out. */
  readonly objective?: Objective
}

/** What a region should have, and what it cannot do without. `least <= target` unless there is too little. */
export interface Target {
  readonly region: RegionId
  readonly target: number
  /** Its expected need, its floor if that is larger: below this it is short. */
  readonly need: number
}

/**
 * Safety stock on top of the estimate: a part of it, or some deviations of what arrives in one stock time.
 *
 * More would leave that much unused in every region that has enough while another is short; less would let such a
 * region deny by chance. Twice as much cost 0.4 % of a bucket's limit with one region far over its share and four
 * below theirs, and denied nobody less. A window is its own stock: only what arrives in all of it counts.
 */
const STOCK_PART = 0.01
const STOCK_DEVIATIONS = 0.1
const STOCK_MS = 1_000

/** A region without a base part still weighs this much when all are short, or it would get nothing at all. */
const WEIGHT_MIN = POOL_UNITS / 100

/** Units that a region needs for `demand` tokens a second, safety stock included; at most the pool. */
export function needOf(demand: number, limit: AllocatedLimit): number {
  if (demand <= 0) return 0
  const rate = rateOf(limit)
  const windowMs = hasBurst(limit.algorithm) ? 0 : limit.windowMs
  const stockSeconds = Math.max(windowMs, paceMs(rate, STOCK_MS)) / 1_000
  const deviation = Math.sqrt(demand * stockSeconds) / stockSeconds
  const wanted = demand + Math.max(STOCK_PART * demand, STOCK_DEVIATIONS * deviation)
  // A share of less than one token can never admit anything.
  const units = Math.max(Math.ceil((wanted / rate) * POOL_UNITS), oneToken(limit))
  return Math.min(POOL_UNITS, units)
}

/** Tokens a second of the whole limit. */
export function rateOf(limit: AllocatedLimit): number {
  return (limit.capacity * 1_000) / limit.windowMs
}

/**
 * Targets for all claims, in the order of region names, that sum exactly to the shares claimed.
 *
 * Regions out of reach make no claim: what they hold is neither given nor taken, so each connected part of the
 * plane shares what its own members have. Where everybody's need fits, the rest goes half by base and half by
 * need. Otherwise, by `max-min`, each gets its need or an equal multiple of its base, whichever is less: who needs
 * little is served in full, and asking for more than that gains nothing. By `proportional` each gets the same part of
 * its need: nobody is served in full, and asking for more gains more.
 */
export function allocate(claims: readonly Claim[], limit: AllocatedLimit): readonly Target[] {
  const ordered = inOrder(claims)
  const pool = ordered.reduce((sum, claim) => sum + claim.share, 0)
  assert(Number.isSafeInteger(pool) && pool >= 0, 'shares are whole units')
  const wants = lift(
    ordered.map((claim) => ({ claim, least: claim.floor, need: needOf(claim.demand, limit) })),
    pool,
    oneToken(limit),
  )
  const needed = wants.reduce((sum, want) => sum + Math.max(want.need, want.least), 0)
  const parts = needed <= pool ? spread(wants, pool - needed) : pour(weighed(wants, limit), pool)
  const targets = inWholeTokens(parts, pool, limit)
  assert(
    targets.reduce((sum, units) => sum + units, 0) === pool,
    'targets sum to the shares in reach',
  )
  return wants.map(({ claim, least, need }, index) => ({
    region: claim.region,
    target: targets[index] ?? 0,
    need: Math.max(need, least),
  }))
}

/** The ledger's claims are in order already. */
function inOrder(claims: readonly Claim[]): readonly Claim[] {
  const isOrdered = claims.every(
    ({ region }, index) => index === 0 || (claims[index - 1]?.region ?? '') < region,
  )
  if (isOrdered) return claims
  return [...claims].sort((one, other) => (one.region < other.region ? -1 : 1))
}

interface Want {
  readonly claim: Claim
  readonly least: number
  readonly need: number
}

/** How fast a region's part rises with the water, against the others'. */
interface Weighed extends Want {
  readonly weight: number
}

function weighed(wants: readonly Want[], { objective }: AllocatedLimit): readonly Weighed[] {
  return wants.map((want) => {
    const weight = objective === 'proportional' ? want.need : want.claim.base
    return { ...want, weight: Math.max(weight, WEIGHT_MIN) }
  })
}

/**
 * Makes the least parts fit the pool, then lifts those of regions with demand to one token while that fits, the
 * most demanding first: of more regions than tokens, as many as possible can admit something.
 */
function lift(wants: readonly Want[], pool: number, token: number): readonly Want[] {
  const floors = wants.reduce((sum, want) => sum + want.least, 0)
  if (floors > pool) {
    const cut = byIndex(
      wants.map((want) => want.least),
      pool,
    )
    return wants.map((want, index) => ({ ...want, least: cut[index] ?? 0 }))
  }
  let left = pool - floors
  const lifted = new Map<RegionId, number>()
  const demanding = wants
    .filter(({ need, least }) => need > 0 && least < token)
    .sort((one, other) => other.claim.demand - one.claim.demand)
  for (const { claim, least } of demanding) {
    if (token - least > left) continue
    left -= token - least
    lifted.set(claim.region, token)
  }
  return wants.map((want) => ({ ...want, least: lifted.get(want.claim.region) ?? want.least }))
}

/** Everybody's need, and the slack half by base and half by need. */
function spread(wants: readonly Want[], slack: number): readonly number[] {
  const bases = wants.reduce((sum, want) => sum + want.claim.base, 0)
  const needs = wants.reduce((sum, want) => sum + want.need, 0)
  const weights = wants.map(({ claim, need }) => {
    const weight = (bases > 0 ? claim.base / bases : 0) + (needs > 0 ? need / needs : 0)
    return bases > 0 || needs > 0 ? weight : 1
  })
  const parts = byIndex(weights, slack)
  return wants.map(({ least, need }, index) => Math.max(need, least) + (parts[index] ?? 0))
}

/**
 * By weight: the water level at which the least parts, the needs and the pool meet.
 *
 * Between two neighbouring break points (where a region leaves its least part, or has its need) the sum grows in
 * a straight line, so the level is found by sorting them.
 */
function pour(wants: readonly Weighed[], pool: number): readonly number[] {
  const level = waterLevel(wants, pool)
  const exact = wants.map((want) => heightAt(want, level))
  const whole = exact.map(Math.floor)
  const left = pool - whole.reduce((sum, units) => sum + units, 0)
  // Only rounding is left, less than a unit a region; the largest remainders get it.
  const favoured = exact
    .map((height, index) => ({ index, remainder: height - Math.floor(height) }))
    .sort((one, other) => other.remainder - one.remainder)
  for (let place = 0; place < left; place++) {
    const index = favoured[place % favoured.length]?.index ?? 0
    whole[index] = (whole[index] ?? 0) + 1
  }
  return whole
}

function waterLevel(wants: readonly Weighed[], pool: number): number {
  const edges = wants
    .filter(({ need, least }) => need > least)
    .flatMap((want) => {
      const { weight } = want
      return [
        { at: want.least / weight, slope: weight },
        { at: want.need / weight, slope: -weight },
      ]
    })
    .sort((one, other) => one.at - other.at)
  let height = wants.reduce((sum, want) => sum + want.least, 0)
  let [level, slope] = [0, 0]
  for (const edge of edges) {
    const rise = slope * (edge.at - level)
    if (height + rise >= pool && slope > 0) break
    height += rise
    level = edge.at
    slope += edge.slope
  }
  return slope > 0 ? level + (pool - height) / slope : level
}

function heightAt(want: Weighed, level: number): number {
  return Math.max(want.least, Math.min(want.need, level * want.weight))
}

/** Windows of few tokens admit whole ones only: a part of a token in two regions is a token lost to both. */
function inWholeTokens(
  parts: readonly number[],
  pool: number,
  limit: AllocatedLimit,
): readonly number[] {
  if (hasBurst(limit.algorithm) || limit.capacity > WHOLE_TOKEN_SPLIT_MAX) return parts
  const tokens = Math.floor((pool * limit.capacity) / POOL_UNITS)
  if (tokens === 0) return parts
  const whole = byIndex(parts, tokens)
  const units = whole.map((part) => Math.floor((part * POOL_UNITS) / limit.capacity))
  const left = pool - units.reduce((sum, part) => sum + part, 0)
  const first = units.findIndex((part) => part > 0)
  return units.map((part, index) => (index === Math.max(0, first) ? part + left : part))
}

/** Units of one token; of few tokens as many parts as there are tokens must fit the pool, so rounded down. */
function oneToken(limit: AllocatedLimit): number {
  const tokens = tokensAtOnce(limit)
  return tokens <= REGIONS_MAX ? Math.floor(POOL_UNITS / tokens) : unitsOfOneToken(tokens)
}

/** Whole parts by weight; all weights zero is an equal split. */
function byIndex(weights: readonly number[], total: number): readonly number[] {
  if (total === 0) return weights.map(() => 0)
  const isEmpty = weights.every((weight) => weight === 0)
  return apportionInOrder(isEmpty ? weights.map(() => 1) : weights, total)
}
