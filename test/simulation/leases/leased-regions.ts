import {
  blockOf,
  creditOf,
  type Granted,
  grantedAt,
  LEASE_MS,
  leasedBurst,
  NONE_GRANTED,
  outstanding,
  withGrant,
  withoutGrant,
} from '../../../shared/core/lease.ts'
import type { randomOf } from '../../support/random.ts'

/** The parts of the rule that a mutant changes. */
export interface LeaseRule {
  readonly burst: typeof leasedBurst
  readonly credit: typeof creditOf
  readonly lifeMs: number
  readonly returnsOnce: boolean
  /** An enforcer counts a lease's life from its own request, not from the reply. */
  readonly datesBySend: boolean
  /** Level of a bucket whose Redis came back, as a part of what it may hold. */
  readonly levelAtBoot: number
}

export const RULE: LeaseRule = {
  burst: leasedBurst,
  credit: creditOf,
  lifeMs: LEASE_MS,
  returnsOnce: true,
  datesBySend: true,
  levelAtBoot: 0,
}

const LIMIT = { capacity: 100, windowMs: 1_000, burst: 60 }
const LEASES_CHURNED = 3
const RATE_PER_MS = LIMIT.capacity / LIMIT.windowMs

interface Lease {
  tokens: number
  readonly untilMs: number
  isReturned: boolean
}

interface Region {
  share: number
  level: number
  granted: Granted
  /** Leases are out, or were within LEASE_MS. */
  lastGrantMs: number
  leases: Lease[]
}

/**
 * Regions that share one token bucket, move shares and lease blocks, against the one bucket that they must not
 * outrun. Levels are real numbers here: rounding is the differential tests' business.
 */
export class LeasedRegions {
  readonly #rule: LeaseRule
  readonly #random: ReturnType<typeof randomOf>
  readonly #regions: Region[]
  #nowMs = 0
  #refilledMs = 0
  /** Tokens that the one bucket holds; below zero once more was admitted than it ever could. */
  #reference = LIMIT.burst
  lowest = LIMIT.burst

  constructor(rule: LeaseRule, random: ReturnType<typeof randomOf>) {
    this.#rule = rule
    this.#random = random
    const count = 2 + random.below(2)
    this.#regions = Array.from({ length: count }, () => ({
      share: 1 / count,
      level: LIMIT.burst / count,
      granted: NONE_GRANTED,
      lastGrantMs: Number.NEGATIVE_INFINITY,
      leases: [],
    }))
  }

  step(): void {
    const region = this.#random.pick(this.#regions)
    const steps = [
      () => this.#pass(this.#random.pick([0.5, 3, 20, 49, 51, 99, 100, 180])),
      () => this.#check(region),
      () => this.#lease(region),
      () => this.#lease(region),
      () => this.#spend(region),
      () => this.#spend(region),
      () => this.#returnLease(region),
      () => this.#moveShare(region),
      () => this.#churn(region),
      () => this.#drain(region),
      () => this.#hoard(region),
      () => this.#strikeLate(),
      () => {
        if (this.#random.below(4) === 0) this.#restart(region)
      },
    ]
    this.#random.pick(steps)()
  }

  #pass(ms: number): void {
    // Hoarders spend at the last moment: just before time passes what would lapse, now and then, is spent.
    if (this.#random.below(3) === 0)
      for (const region of this.#regions) this.#spendLapsing(region, ms)
    this.#nowMs += ms
    this.#refill()
  }

  #refill(): void {
    const ms = this.#nowMs - this.#refilledMs
    this.#refilledMs = this.#nowMs
    this.#reference = Math.min(LIMIT.burst, this.#reference + RATE_PER_MS * ms)
    for (const region of this.#regions) {
      const refilled = region.level + RATE_PER_MS * region.share * ms
      region.level = Math.min(this.#capacity(region), refilled)
    }
  }

  #capacity(region: Region): number {
    const isLeased = this.#nowMs - region.lastGrantMs < LEASE_MS
    return (isLeased ? this.#rule.burst(LIMIT) : LIMIT.burst) * region.share
  }

  #admit(tokens: number): void {
    this.#reference -= tokens
    this.lowest = Math.min(this.lowest, this.#reference)
  }

  #check(region: Region): void {
    region.level = Math.min(region.level, this.#capacity(region))
    const cost = Math.min(Math.floor(region.level), 1 + this.#random.below(30))
    region.level -= cost
    this.#admit(cost)
  }

  #lease(region: Region): void {
    const capacity = this.#rule.burst(LIMIT) * region.share
    const left = Math.floor(Math.min(region.level, capacity))
    const wanted = this.#random.pick([4, 10, 40])
    const tokens = blockOf({ wanted, most: Math.floor(capacity), left })
    if (tokens === null || tokens === 0) return
    region.lastGrantMs = this.#nowMs
    region.level = Math.min(region.level, capacity) - tokens
    region.granted = withGrant(region.granted, tokens, this.#nowMs)
    region.leases = region.leases.filter((one) => one.tokens > 0 && this.#nowMs < one.untilMs)
    const replyMs = this.#rule.datesBySend ? 0 : this.#random.pick([1, 20, 60])
    const untilMs = this.#nowMs + replyMs + this.#rule.lifeMs
    region.leases.push({ tokens, untilMs, isReturned: false })
  }

  /** Redis comes back without its counters; enforcers spend what they had leased, and nobody takes it back. */
  #restart(region: Region): void {
    for (const lease of region.leases) lease.isReturned = true
    region.granted = NONE_GRANTED
    region.lastGrantMs = Number.NEGATIVE_INFINITY
    region.level = this.#rule.levelAtBoot * this.#capacity(region)
  }

  #spend(region: Region): void {
    const lease = region.leases.find((one) => one.tokens > 0 && this.#nowMs < one.untilMs)
    if (lease === undefined) return
    const cost = this.#random.pick([1, Math.ceil(lease.tokens / 2), lease.tokens])
    lease.tokens -= cost
    this.#admit(cost)
  }

  #spendLapsing(region: Region, ms: number): void {
    for (const lease of region.leases) {
      if (this.#nowMs >= lease.untilMs || this.#nowMs + ms < lease.untilMs) continue
      this.#admit(lease.tokens)
      lease.tokens = 0
    }
  }

  #returnLease(region: Region): void {
    const lease = region.leases.find(
      (one) => !one.isReturned && one.tokens > 0 && this.#nowMs < one.untilMs,
    )
    if (lease === undefined) return
    const { tokens } = lease
    // The enforcer stops spending as it sends; the record of the lease in Redis lives for LEASE_MS.
    if (this.#rule.returnsOnce) lease.tokens = 0
    lease.isReturned = this.#rule.returnsOnce
    const granted = grantedAt(region.granted, this.#nowMs)
    const capacity = this.#rule.burst(LIMIT) * region.share
    const ask = { tokens, capacity, level: region.level, granted: outstanding(granted) }
    region.level += this.#rule.credit(ask)
    region.granted = withoutGrant(granted, tokens)
  }

  /** An enforcer that gives each block back at its end and takes it anew holds tokens longer than one lease lasts. */
  #churn(region: Region): void {
    for (let lease = 0; lease < LEASES_CHURNED; lease++) {
      this.#returnLease(region)
      this.#lease(region)
    }
  }

  /** Holds as much as it can for as long as it can; then every region spends what it has. */
  #hoard(region: Region): void {
    for (let lease = 0; lease < 3; lease++) this.#lease(region)
    for (let round = 0; round < 3; round++) {
      this.#pass(LEASE_MS - 1)
      this.#churn(region)
    }
    for (const one of this.#regions) this.#drain(one)
  }

  /** Every region leases from full buckets, and spends all at the last moment, when they have refilled. */
  #strikeLate(): void {
    this.#pass(LIMIT.burst / RATE_PER_MS)
    for (const region of this.#regions) {
      for (let lease = 0; lease < 3; lease++) this.#lease(region)
    }
    this.#nowMs += this.#random.pick([LEASE_MS - 1, LEASE_MS + 19])
    this.#refill()
    for (const region of this.#regions) this.#drain(region)
  }

  /** All that a region can spend at one instant. */
  #drain(region: Region): void {
    const level = Math.floor(Math.min(region.level, this.#capacity(region)))
    region.level -= level
    this.#admit(level)
    for (const lease of region.leases) {
      if (this.#nowMs < lease.untilMs) this.#admit(lease.tokens)
      lease.tokens = 0
    }
  }

  /** Shrinks one region before it grows another, as the ledger does. */
  #moveShare(from: Region): void {
    const to = this.#random.pick(this.#regions)
    if (to === from) return
    const moved = from.share * this.#random.pick([0.1, 0.5, 1])
    from.share -= moved
    from.level = Math.min(from.level, this.#capacity(from))
    to.share += moved
  }
}
