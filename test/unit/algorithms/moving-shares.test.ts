import { describe, expect, it } from 'vitest'
import type { Share } from '../../../shared/core/algorithms/algorithm.ts'
import { algorithmOf } from '../../../shared/core/algorithms/registry.ts'
import { partTokens } from '../../../shared/core/counter-parts.ts'
import { drainEnd } from '../../../shared/core/ledger/homes.ts'
import type { Algorithm, RegionLimit } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { randomOf } from '../../support/random.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

/**
 * Two regions whose shares move between them while callers take all they can get (INV-6). A key with shards is several
 * counters, each with loans of its own; what is judged is their sum.
 */

const NOON_US = 1_793_448_000_000_000
const WINDOW_US = 1_000_000
const CAPACITY = 12
const LOAN_US = 700_000
const HALF = POOL_UNITS / 2
const SEEDS = 40
const STEPS = 250

interface Admission {
  readonly atUs: number
  readonly cost: number
}

class Region {
  state: unknown = null
  share: Share = { home: HALF, borrowed: 0, expUs: 0 }
  readonly admitted: Admission[] = []
  #holders = 0
  readonly #limit: RegionLimit
  readonly #name: string

  constructor(name: string, limit: RegionLimit) {
    this.#name = name
    this.#limit = limit
  }

  settled(nowUs: number) {
    const boot = { startUs: 0, recovering: false }
    const circumstances = { limit: this.#limit, share: this.share, boot, nowUs }
    return algorithmOf(this.#limit).settle(this.state, circumstances)
  }

  check(nowUs: number, cost: number): void {
    const rule = algorithmOf(this.#limit)
    const settled = this.settled(nowUs)
    if (cost > settled.remaining) return
    this.#holders += 1
    this.state = rule.store(rule.take(settled, cost, `${this.#name} ${this.#holders}`))
    this.admitted.push({ atUs: nowUs, cost })
  }

  /** False where it is refused. */
  resize(nowUs: number, share: Share, shrinks: boolean): boolean {
    const rule = algorithmOf(this.#limit)
    const after = rule.resize(this.settled(nowUs), share, shrinks)
    if (after === null) return false
    this.state = rule.store(after)
    this.share = share
    return true
  }
}

interface Loan {
  readonly lender: Region
  readonly borrower: Region
  readonly units: number
  readonly untilUs: number
  /** When the lender may use the units again after they lapsed. */
  readonly drainedUs: number
}

type Judge = (regions: readonly Region[], nowUs: number) => void

/** Runs one random history of a key with so many shards; `judge` sees all counters after each step. */
function run(seed: number, { algorithm, shards }: Kind, judge: Judge): void {
  const random = randomOf(seed)
  const capacity = partTokens(CAPACITY, shards)
  const limit = aRegionLimit({ algorithm, capacity, windowMs: WINDOW_US / 1_000 })
  const parts: { readonly regions: readonly Region[]; loan: Loan | null }[] = Array.from(
    { length: shards },
    () => ({ regions: [new Region('a', limit), new Region('b', limit)], loan: null }),
  )
  const all = parts.flatMap(({ regions }) => regions)
  let nowUs = NOON_US + random.below(WINDOW_US)
  for (let step = 0; step < STEPS; step++) {
    nowUs += random.pick([0, 1, 1_000, 20_000, 90_000, 250_000])
    for (const part of parts) part.loan = moved(part.loan, part.regions, { nowUs, random, limit })
    for (const region of all) region.check(nowUs, random.pick([1, 1, 2, 3]))
    judge(all, nowUs)
  }
}

function moved(
  loan: Loan | null,
  regions: readonly Region[],
  {
    nowUs,
    random,
    limit,
  }: { nowUs: number; random: ReturnType<typeof randomOf>; limit: RegionLimit },
): Loan | null {
  if (loan === null) return random.below(3) === 0 ? lend(regions, { nowUs, random, limit }) : null
  const { lender, borrower, units, untilUs, drainedUs } = loan
  const home = { home: HALF, borrowed: 0, expUs: 0 }
  if (nowUs < untilUs) {
    // Given back: shrunk first.
    if (random.below(6) > 0 || !borrower.resize(nowUs, home, true)) return loan
  } else if (nowUs < drainedUs) return loan
  borrower.resize(nowUs, home, false)
  lender.resize(nowUs, { ...lender.share, home: lender.share.home + units }, false)
  return null
}

function lend(
  regions: readonly Region[],
  {
    nowUs,
    random,
    limit,
  }: { nowUs: number; random: ReturnType<typeof randomOf>; limit: RegionLimit },
): Loan | null {
  const first = random.below(2)
  const [lender, borrower] = [regions[first], regions[1 - first]]
  if (lender === undefined || borrower === undefined) return null
  const units = random.pick([HALF, HALF / 2, 83_333])
  if (!lender.resize(nowUs, { ...lender.share, home: HALF - units }, true)) return null
  const untilUs = nowUs + LOAN_US
  borrower.resize(nowUs, { home: HALF, borrowed: units, expUs: untilUs }, false)
  const ledger = { ...limit, epoch: 0, base: {}, previousBase: null, floorPercent: 0 }
  const drainedUs = (drainEnd(ledger, untilUs / 1_000) ?? 0) * 1_000
  return { lender, borrower, units, untilUs, drainedUs }
}

interface Kind {
  readonly algorithm: Algorithm
  readonly shards: number
}

function eachSeed(kind: Kind, judgeOf: () => Judge): void {
  for (let seed = 1; seed * kind.shards <= SEEDS; seed++) {
    try {
      run(seed, kind, judgeOf())
    } catch (err) {
      throw new Error(`seed ${seed}`, { cause: err })
    }
  }
}

const sumOf = (admitted: readonly Admission[]): number =>
  admitted.reduce((sum, { cost }) => sum + cost, 0)

/** That at most the capacity is counted of what the counters have admitted. */
const countsAtMost =
  (isCounted: (admission: Admission, nowUs: number) => boolean): Judge =>
  (regions, nowUs) => {
    const counted = regions
      .flatMap(({ admitted }) => admitted)
      .filter((admission) => isCounted(admission, nowUs))
    expect(sumOf(counted)).toBeLessThanOrEqual(CAPACITY)
  }

const isInWindow = ({ atUs }: Admission, nowUs: number): boolean => nowUs - atUs < WINDOW_US

const windowOf = (atUs: number): number => Math.floor(atUs / WINDOW_US)

/** That in no stretch more was admitted than the burst and what the rate gives. */
function meter(): Judge {
  let level = 0
  let atUs = NOON_US
  let counted = 0
  return (regions, nowUs) => {
    const all = sumOf(regions.flatMap(({ admitted }) => admitted))
    level = Math.max(0, level - ((nowUs - atUs) * CAPACITY) / WINDOW_US) + all - counted
    counted = all
    atUs = nowUs
    expect(level).toBeLessThanOrEqual(CAPACITY + 1e-6)
  }
}

describe.each([1, 4])('shares that move between regions, of keys with %i shards', (shards) => {
  it.each(['sliding_window', 'sliding_log'] as const)(
    'never let any window of a %s hold more than the capacity',
    (algorithm) => eachSeed({ algorithm, shards }, () => countsAtMost(isInWindow)),
  )

  it('never let more be held at once of a concurrency limit', () => {
    eachSeed({ algorithm: 'concurrency', shards }, () => countsAtMost(isInWindow))
  })

  it('never let a fixed window admit more', () => {
    const isInIt = ({ atUs }: Admission, nowUs: number): boolean =>
      windowOf(atUs) === windowOf(nowUs)
    eachSeed({ algorithm: 'fixed_window', shards }, () => countsAtMost(isInIt))
  })

  it.each(['token_bucket', 'leaky_bucket'] as const)(
    'never let a %s admit more than its burst and its rate allow',
    (algorithm) => eachSeed({ algorithm, shards }, meter),
  )

  it('never let the estimates of a sliding counter sum to more', () => {
    const judge: Judge = (regions, nowUs) => {
      const all = regions.flatMap(({ admitted }) => admitted)
      const of = (id: number): number => sumOf(all.filter(({ atUs }) => windowOf(atUs) === id))
      const left = WINDOW_US - (nowUs % WINDOW_US)
      const estimate = of(windowOf(nowUs)) + (of(windowOf(nowUs) - 1) * left) / WINDOW_US
      expect(estimate).toBeLessThanOrEqual(CAPACITY + 1e-9)
    }
    eachSeed({ algorithm: 'sliding_counter', shards }, () => judge)
  })
})
