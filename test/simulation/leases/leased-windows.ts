import { blockOf } from '../../../shared/core/lease.ts'
import type { randomOf } from '../../support/random.ts'

/** The parts of the rule of leases of windows that a mutant changes. */
export interface WindowLeaseRule {
  /** A lease ends with its window at the latest. */
  readonly endsWithWindow: boolean
  /** What comes back is credited to the window that it was taken of, and to no other. */
  readonly returnsToItsWindow: boolean
  /** What is leased counts as admitted when a share is to shrink. */
  readonly countsLeased: boolean
  /** A lease may be given back once. */
  readonly returnsOnce: boolean
}

export const WINDOW_RULE: WindowLeaseRule = {
  endsWithWindow: true,
  returnsToItsWindow: true,
  countsLeased: true,
  returnsOnce: true,
}

const CAPACITY = 120
const WINDOW_MS = 250
const LIFE_MS = 100

interface Lease {
  left: number
  readonly window: number
  readonly untilMs: number
  isReturned: boolean
}

interface Region {
  /** Tokens of each window; sums to the capacity over all regions. */
  share: number
  window: number
  count: number
  leases: Lease[]
}

/** Regions that share one fixed window, move shares of it and lease blocks, against the one count that must hold. */
export class LeasedWindows {
  readonly #rule: WindowLeaseRule
  readonly #random: ReturnType<typeof randomOf>
  readonly #regions: Region[]
  readonly #admitted = new Map<number, number>()
  #nowMs = 0
  /** Most tokens that were admitted in one window beyond its capacity. */
  excess = 0

  constructor(rule: WindowLeaseRule, random: ReturnType<typeof randomOf>) {
    this.#rule = rule
    this.#random = random
    this.#regions = [0, 1].map(() => ({ share: CAPACITY / 2, window: 0, count: 0, leases: [] }))
  }

  step(): void {
    const region = this.#random.pick(this.#regions)
    const steps = [
      () => {
        this.#nowMs += this.#random.pick([1, 20, 60, 99, WINDOW_MS])
      },
      () => this.#take(region, 1 + this.#random.below(20)),
      () => this.#lease(region),
      () => this.#lease(region),
      () => this.#spend(region),
      () => this.#giveBack(region),
      () => this.#moveShare(region),
    ]
    this.#random.pick(steps)()
  }

  get #window(): number {
    return Math.floor(this.#nowMs / WINDOW_MS)
  }

  #roll(region: Region): void {
    if (region.window === this.#window) return
    region.window = this.#window
    region.count = 0
  }

  #admit(tokens: number): void {
    const admitted = (this.#admitted.get(this.#window) ?? 0) + tokens
    this.#admitted.set(this.#window, admitted)
    this.excess = Math.max(this.excess, admitted - CAPACITY)
  }

  #take(region: Region, wanted: number): void {
    this.#roll(region)
    const tokens = Math.min(wanted, region.share - region.count)
    region.count += tokens
    this.#admit(tokens)
  }

  #lease(region: Region): void {
    this.#roll(region)
    const left = region.share - region.count
    const wanted = this.#random.pick([10, 40])
    const tokens = blockOf({ wanted, most: region.share, left }) ?? 0
    region.count += tokens
    const endMs = this.#rule.endsWithWindow
      ? (this.#window + 1) * WINDOW_MS
      : Number.POSITIVE_INFINITY
    const untilMs = Math.min(this.#nowMs + LIFE_MS, endMs)
    region.leases = region.leases.filter((lease) => this.#nowMs < lease.untilMs)
    region.leases.push({ left: tokens, window: this.#window, untilMs, isReturned: false })
  }

  #spend(region: Region): void {
    const lease = region.leases.find(({ left, untilMs }) => left > 0 && this.#nowMs < untilMs)
    if (lease === undefined) return
    const tokens = this.#random.pick([1, lease.left])
    lease.left -= tokens
    this.#admit(tokens)
  }

  /** The message may come after the window's end: an enforcer gives back as it ends. */
  #giveBack(region: Region): void {
    const lease = region.leases.find(({ left, isReturned }) => left > 0 && !isReturned)
    if (lease === undefined) return
    this.#roll(region)
    const isCredited = !this.#rule.returnsToItsWindow || lease.window === region.window
    if (isCredited) region.count = Math.max(0, region.count - lease.left)
    if (!this.#rule.returnsOnce) return
    lease.isReturned = true
    lease.left = 0
  }

  /** A share never shrinks below what its window has admitted and leased. */
  #moveShare(from: Region): void {
    const [to] = this.#regions.filter((region) => region !== from)
    if (to === undefined) return
    this.#roll(from)
    const leased = from.leases.reduce((sum, { left, untilMs }) => {
      return this.#nowMs < untilMs ? sum + left : sum
    }, 0)
    const occupied = this.#rule.countsLeased ? from.count : from.count - leased
    const free = Math.max(0, from.share - occupied)
    const moved = this.#random.pick([Math.floor(free / 2), free])
    from.share -= moved
    to.share += moved
  }
}
