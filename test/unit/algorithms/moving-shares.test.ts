import { describe, expect, it } from 'vitest'
import type { Share } from '../../../shared/core/algorithms/algorithm.ts'
import { algorithmOf } from '../../../shared/core/algorithms/registry.ts'
import { drainEnd } from '../../../shared/core/ledger/homes.ts'
import type { Algorithm, RegionLimit } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { randomOf } from '../../support/random.ts'
import { aRegionLimit } from '../../support/region-policy.ts'

/** Two regions whose shares move between them while callers take all they can get (INV-6). */

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

/** Runs one random history; `judge` sees both regions after each step. */
function run(
  seed: number,
  limit: RegionLimit,
  judge: (regions: readonly Region[], nowUs: number) => void,
): void {
  const random = randomOf(seed)
  const regions = [new Region('a', limit), new Region('b', limit)]
  let loan: Loan | null = null
  let nowUs = NOON_US + random.below(WINDOW_US)
  for (let step = 0; step < STEPS; step++) {
    nowUs += random.pick([0, 1, 1_000, 20_000, 90_000, 250_000])
    loan = moved(loan, regions, { nowUs, random, limit })
    for (const region of regions) region.check(nowUs, random.pick([1, 1, 2, 3]))
    judge(regions, nowUs)
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

function limitOf(algorithm: Algorithm): RegionLimit {
  return aRegionLimit({ algorithm, capacity: CAPACITY, windowMs: WINDOW_US / 1_000 })
}

function eachSeed(algorithm: Algorithm, judge: Parameters<typeof run>[2]): void {
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      run(seed, limitOf(algorithm), judge)
    } catch (err) {
      throw new Error(`seed ${seed}`, { cause: err })
    }
  }
}

describe('shares that move between regions', () => {
  it.each(['sliding_window', 'sliding_log'] as const)(
    'never let any window of a %s hold more than the capacity',
    (algorithm) => {
      eachSeed(algorithm, (regions, nowUs) => {
        const counted = regions
          .flatMap(({ admitted }) => admitted)
          .filter(({ atUs }) => nowUs - atUs < WINDOW_US)
        expect(counted.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(CAPACITY)
      })
    },
  )

  it('never let more be held at once of a concurrency limit', () => {
    eachSeed('concurrency', (regions, nowUs) => {
      const held = regions
        .flatMap(({ admitted }) => admitted)
        .filter(({ atUs }) => nowUs - atUs < WINDOW_US)
      expect(held.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(CAPACITY)
    })
  })

  it('never let a fixed window admit more', () => {
    eachSeed('fixed_window', (regions, nowUs) => {
      const window = Math.floor(nowUs / WINDOW_US)
      const counted = regions
        .flatMap(({ admitted }) => admitted)
        .filter(({ atUs }) => Math.floor(atUs / WINDOW_US) === window)
      expect(counted.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(CAPACITY)
    })
  })

  it('never let the estimates of a sliding counter sum to more', () => {
    eachSeed('sliding_counter', (regions, nowUs) => {
      const all = regions.flatMap(({ admitted }) => admitted)
      const window = Math.floor(nowUs / WINDOW_US)
      const of = (id: number): number =>
        all
          .filter(({ atUs }) => Math.floor(atUs / WINDOW_US) === id)
          .reduce((sum, { cost }) => sum + cost, 0)
      const left = WINDOW_US - (nowUs % WINDOW_US)
      const estimate = of(window) + (of(window - 1) * left) / WINDOW_US
      expect(estimate).toBeLessThanOrEqual(CAPACITY + 1e-9)
    })
  })
})
