/**
 * Regions' counters of one key, shares that move between them by the rules, and a caller who strikes exactly before
 * and exactly after each move.
 *
 * Which units move is decided here, in the open and in one place, so nothing but enforcement can be wrong: how a
 * counter settles, shrinks, grows, expires and begins again. One reference limiter sees every admission.
 */
import type { Share } from '../../../shared/core/algorithms/algorithm.ts'
import { EDGE_US } from '../../../shared/core/algorithms/fixed-window.ts'
import { stampLimit } from '../../../shared/core/algorithms/stamp-limit.ts'
import { DRIFT } from '../../../shared/core/ledger/constants.ts'
import { hasBurst, type RegionLimitSpec } from '../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { PLAIN_LIMIT } from '../../support/region-policy.ts'
import { Reference } from '../sim/meters/reference.ts'
import { EPOCH_US } from '../sim/world/epoch.ts'
import type { Prng } from '../sim/world/prng.ts'
import { type EnforcementMutant, RegionCounter } from './counter.ts'

export type ArenaLimit = Pick<RegionLimitSpec, 'algorithm' | 'capacity' | 'windowMs' | 'burst'>

interface Site {
  readonly counter: RegionCounter
  readonly skewUs: number
  readonly base: number
  /** Units that are lent, or not usable yet. */
  away: number
  readonly borrowed: Loan[]
  /** The region lost its memory and uses nothing until then. */
  recoveringUntilUs: number
  version: number
}

interface Loan {
  readonly lender: Site
  readonly units: number
  readonly endUs: number
}

const SPEC = { ...PLAIN_LIMIT, id: 1, name: '', usageEpoch: 0 }

/** Most by which a wall clock is wrong: two differ by twice that. */
const SKEW_US = 25_000

/** The edge that the guard of windows is about, both ways, and a little more. */
const DRAIN_MARGIN_US = EDGE_US + 1_000

export class Arena {
  nowUs = EPOCH_US
  readonly sites: readonly Site[]
  readonly #prng: Prng
  readonly #mutant: EnforcementMutant
  readonly #reference: Reference
  #limit: ArenaLimit

  constructor(limit: ArenaLimit, regions: number, prng: Prng, mutant: EnforcementMutant) {
    this.#limit = limit
    this.#prng = prng
    this.#mutant = mutant
    this.#reference = new Reference(limit, 1)
    this.sites = basesOf(prng, regions).map((base) => this.#open(base))
  }

  /** Tokens beyond the limit so far. */
  get excess(): number {
    return this.#reference.excess
  }

  get kind(): Pick<ArenaLimit, 'algorithm' | 'windowMs'> {
    const { algorithm, windowMs } = this.#limit
    return { algorithm, windowMs }
  }

  get windowUs(): number {
    return this.#limit.windowMs * 1_000
  }

  pass(us: number): void {
    this.nowUs += Math.max(0, Math.floor(us))
  }

  /** Takes all that a region has. */
  drain(site: Site): void {
    const most = 2 * Math.max(this.#limit.burst, this.#limit.capacity)
    for (let call = 0; call < most && this.#take(site); call++);
  }

  drainAll(): void {
    for (const site of this.sites) this.drain(site)
  }

  trickle(site: Site, calls: number): void {
    for (let call = 0; call < calls; call++) this.#take(site)
  }

  /** The lender shrinks, the message travels, the borrower grows; a window that is too full refuses. */
  lend(
    lender: Site,
    borrower: Site,
    loan: { part: number; travelUs: number; ttlUs: number },
  ): void {
    const free = lender.base - lender.away
    const units = Math.floor(free * loan.part)
    if (units <= 0 || this.#isRecovering(lender) || this.#isRecovering(borrower)) return
    lender.away += units
    if (!this.#write(lender, true)) {
      lender.away -= units
      return
    }
    this.#strike(lender)
    this.pass(loan.travelUs)
    this.#strike(borrower)
    borrower.borrowed.push({ lender, units, endUs: this.nowUs + loan.ttlUs })
    this.#write(borrower, false)
    this.#strike(borrower)
  }

  /** The borrower gives one loan back before its end. */
  giveBack(borrower: Site, travelUs: number): void {
    const loan = borrower.borrowed[0]
    if (loan === undefined || this.nowUs >= loan.endUs) return
    borrower.borrowed.shift()
    if (!this.#write(borrower, true)) {
      borrower.borrowed.unshift(loan)
      return
    }
    this.pass(travelUs)
    this.#strike(loan.lender)
    this.#bringHome(loan)
    this.#strike(loan.lender)
  }

  /** Waits for the end of a borrower's first loan, and strikes around it. */
  lapse(borrower: Site): void {
    const loan = borrower.borrowed[0]
    if (loan === undefined) return
    this.pass(loan.endUs - this.nowUs - 2)
    this.#strike(borrower)
    this.pass(4)
    borrower.borrowed.shift()
    this.#strike(borrower)
    this.pass(this.#prng.next() * 2e6)
    // A daemon that is away writes nothing: the deadline must do.
    if (this.#prng.chance(0.5)) this.#write(borrower, false)
    this.#strike(borrower)
    // What was spent of a window is spent until it has ended, wherever its units are.
    if (this.#mutant.regrowsAtOnce !== true) this.pass(this.#drainUs())
    this.#bringHome(loan)
    this.#strike(loan.lender)
  }

  /** Redis came back without its counters; the daemon has kept its memory and writes all shares again. */
  restart(site: Site): void {
    site.counter.lose({ ...site.counter.boot, startUs: site.counter.clockUs(this.nowUs) })
    this.#stamp(site)
    this.#write(site, false)
    this.#strike(site)
  }

  /** Redis and daemon lost everything: the region uses nothing until all that it lent has ended. */
  wipe(site: Site): void {
    if (site.borrowed.length > 0) return
    const ends = this.sites.flatMap(({ borrowed }) =>
      borrowed.filter(({ lender }) => lender === site).map(({ endUs }) => endUs),
    )
    site.recoveringUntilUs = Math.max(this.nowUs + 1, ...ends)
    const recovering = this.#mutant.recoversAtOnce !== true
    site.counter.lose({ startUs: site.counter.clockUs(this.nowUs), recovering })
    site.counter.share = null
    this.#stamp(site)
    this.#strike(site)
  }

  /** Waits until a wiped region has its base again. */
  recover(site: Site): void {
    if (!this.#isRecovering(site)) return
    this.#strike(site)
    for (const borrower of this.sites) {
      while (borrower.borrowed.some(({ lender }) => lender === site)) this.lapse(borrower)
    }
    this.pass(site.recoveringUntilUs - this.nowUs)
    this.pass(this.#drainUs())
    site.counter.boot = { ...site.counter.boot, recovering: false }
    site.recoveringUntilUs = 0
    this.#stamp(site)
    this.#write(site, false)
    this.#strike(site)
  }

  /** Nothing lent or borrowed: the key needs no ledger any more. */
  untrack(site: Site): void {
    const isIdle = site.away === 0 && site.borrowed.length === 0
    if (isIdle && !this.#isRecovering(site)) site.counter.untrack(this.nowUs)
  }

  /** All regions change at one instant; how a change travels is not enforcement's. */
  change(limit: ArenaLimit): void {
    this.#limit = limit
    this.#reference.setNumbers(limit, this.nowUs)
    for (const site of this.sites) this.#stamp(site)
    for (const site of this.sites) this.#strike(site)
  }

  /** Just after the edge of the fastest clock, while the others are in the window before it. */
  passToEdge(): Site | undefined {
    const fastest = this.sites.reduce((one, other) => (other.skewUs > one.skewUs ? other : one))
    const clockUs = fastest.counter.clockUs(this.nowUs)
    this.pass(this.windowUs - (clockUs % this.windowUs) - 1_000)
    this.drain(fastest)
    this.pass(2_000)
    return fastest
  }

  /** Until what was spent up to now is spent no longer. */
  #drainUs(): number {
    const { algorithm } = this.#limit
    if (hasBurst(algorithm)) return 0
    const restUs = this.windowUs - (this.nowUs % this.windowUs)
    return algorithm === 'fixed_window'
      ? restUs + DRAIN_MARGIN_US
      : this.windowUs * (1 + DRIFT) + DRAIN_MARGIN_US
  }

  #open(base: number): Site {
    const skewUs = Math.round(this.#prng.between(-SKEW_US, SKEW_US))
    const spec = { ...SPEC, ...this.#limit, home: base }
    const boot = { startUs: 0, recovering: false }
    const limit = stampLimit(undefined, spec, { version: 1, nowUs: this.nowUs + skewUs, boot })
    const counter = new RegionCounter(limit, skewUs, this.#mutant)
    return { counter, skewUs, base, away: 0, borrowed: [], recoveringUntilUs: 0, version: 1 }
  }

  #stamp(site: Site): void {
    const { counter, base } = site
    const spec = { ...SPEC, ...this.#limit, home: base }
    const stamp = {
      version: ++site.version,
      nowUs: counter.clockUs(this.nowUs),
      boot: counter.boot,
    }
    counter.limit = stampLimit(counter.limit, spec, stamp)
  }

  #write(site: Site, shrinks: boolean): boolean {
    return site.counter.writeShare(this.#shareOf(site), shrinks, this.nowUs)
  }

  #shareOf({ base, away, borrowed, counter }: Site): Share {
    const units = borrowed.reduce((sum, loan) => sum + loan.units, 0)
    const endUs = Math.min(...borrowed.map((loan) => loan.endUs))
    return {
      home: base - away,
      borrowed: units,
      expUs: units > 0 ? counter.clockUs(endUs) : 0,
    }
  }

  #bringHome({ lender, units }: Loan): void {
    lender.away -= units
    if (!this.#isRecovering(lender)) this.#write(lender, false)
  }

  #isRecovering(site: Site): boolean {
    return site.recoveringUntilUs > 0
  }

  #take({ counter }: Site): boolean {
    if (!counter.admits(1, this.nowUs)) return false
    this.#reference.onAdmitted(0, 1, this.nowUs, counter.clockUs(this.nowUs))
    return true
  }

  /** Half of the time at each occasion: always would leave nothing to spend at the next. */
  #strike(site: Site): void {
    if (this.#prng.chance(0.5)) this.drain(site)
  }
}

export type ArenaSite = Arena['sites'][number]

/** Whole parts of the pool, some of them nothing. */
function basesOf(prng: Prng, regions: number): readonly number[] {
  const weights = Array.from({ length: regions }, () => prng.below(4))
  const sum = weights.reduce((all, weight) => all + weight, 0)
  if (sum === 0) return weights.map((_, index) => (index === 0 ? POOL_UNITS : 0))
  return weights.map((weight) => Math.floor((POOL_UNITS * weight) / sum))
}
