import type { World } from '../world/world.ts'
import { Baseline, zeros } from './baseline.ts'
import { LocalLimiter } from './local-limiter.ts'
import type { Attempt, Outcome } from './strategy.ts'

const PERIOD_MS = 200
/** Smoothing of each region's own demand. */
const KEEP = 0.7
/** Part of the limit that is split evenly, so that an idle region can begin. */
const EVEN_PART = 0.05
/** A region unheard for this long is taken to be gone, and its part used by the others. */
const GONE_MS = 1_000

/**
 * Proportional gossip, as in distributed rate limiters: each region takes the part of the limit that its demand
 * has in all demand that it knows of. Safe only while all views agree.
 */
export class Gossip extends Baseline {
  readonly name = 'gossip'
  readonly #limiters: readonly LocalLimiter[]
  readonly #counts: number[]
  /** What each region knows of each: demand, and when it was heard. */
  readonly #known: readonly { demand: number; atUs: number }[][]

  constructor(world: World) {
    super(world)
    const { limit, keys } = world.spec
    this.#limiters = world.weights.map((weight) => new LocalLimiter(limit, weight, keys ?? 1))
    this.#counts = zeros(world.spec.regions)
    this.#known = world.regions.map(() =>
      world.weights.map((weight) => ({ demand: weight, atUs: 0 })),
    )
  }

  override start(): void {
    this.everyRegion(PERIOD_MS, (region) => this.#measure(region))
  }

  check({ region, key, cost }: Attempt): Outcome {
    this.#counts[region] = (this.#counts[region] ?? 0) + cost
    const nowUs = this.wallUs()
    return this.#limiters[region]?.admits(key, cost, nowUs) === true ? 'admitted' : 'denied'
  }

  shareOf(region: number): number {
    return this.#limiters[region]?.share ?? 0
  }

  #measure(region: number): void {
    const own = this.#known[region]?.[region]
    if (own === undefined) return
    const demand = KEEP * own.demand + (1 - KEEP) * (this.#counts[region] ?? 0)
    this.#counts[region] = 0
    this.#hear(region, region, demand)
    this.tell(region, [demand], (to) => this.#hear(to, region, demand))
  }

  #hear(at: number, of: number, demand: number): void {
    const views = this.#known[at]
    const nowUs = this.world.queue.nowUs
    if (views === undefined) return
    views[of] = { demand, atUs: nowUs }
    const present = views.filter(({ atUs }) => nowUs - atUs < GONE_MS * 1_000)
    const total = present.reduce((sum, view) => sum + view.demand, 0)
    const part = total > 0 ? (views[at]?.demand ?? 0) / total : 1 / present.length
    const share = EVEN_PART / present.length + (1 - EVEN_PART) * part
    this.#limiters[at]?.setShare(share, this.wallUs())
  }
}
