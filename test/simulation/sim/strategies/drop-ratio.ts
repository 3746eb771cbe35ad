import type { Prng } from '../world/prng.ts'
import type { World } from '../world/world.ts'
import { Baseline, zeros } from './baseline.ts'
import type { Attempt, Outcome } from './strategy.ts'

const PERIOD_MS = 1_000

/**
 * A drop ratio worked out each second: every region refuses at random the part by which all demand of the last
 * second was over the limit. Right on average for steady demand; it has no bound.
 */
export class DropRatio extends Baseline {
  readonly name = 'drop-ratio'
  readonly #prng: Prng
  readonly #counts: number[]
  readonly #known: readonly number[][]
  readonly #ratios: number[]

  constructor(world: World) {
    super(world)
    this.#prng = world.prng.fork('drops')
    this.#counts = zeros(world.spec.regions)
    this.#ratios = zeros(world.spec.regions)
    this.#known = world.regions.map(() => zeros(world.spec.regions))
  }

  override start(): void {
    this.everyRegion(PERIOD_MS, (region) => this.#measure(region))
  }

  check({ region, cost }: Attempt): Outcome {
    this.#counts[region] = (this.#counts[region] ?? 0) + cost
    return this.#prng.chance(this.#ratios[region] ?? 0) ? 'denied' : 'admitted'
  }

  shareOf(region: number): number {
    return 1 - (this.#ratios[region] ?? 0)
  }

  #measure(region: number): void {
    const count = this.#counts[region] ?? 0
    this.#counts[region] = 0
    this.#hear(region, region, count)
    this.tell(region, [count], (to) => this.#hear(to, region, count))
  }

  #hear(at: number, of: number, count: number): void {
    const known = this.#known[at]
    if (known === undefined) return
    known[of] = count
    const { limit, keys } = this.world.spec
    const allowed = (limit.capacity * (keys ?? 1) * PERIOD_MS) / limit.windowMs
    const total = known.reduce((sum, one) => sum + one, 0)
    this.#ratios[at] = total > allowed ? 1 - allowed / total : 0
  }
}
