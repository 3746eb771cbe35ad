import type { World } from '../world/world.ts'
import { Baseline } from './baseline.ts'
import { LocalLimiter } from './local-limiter.ts'
import type { Attempt, Outcome } from './strategy.ts'

/** Limiters that never hear of each other, each with a fixed part of the limit. */
export class Uncoordinated extends Baseline {
  readonly name: string
  readonly #limiters: readonly LocalLimiter[]

  constructor(world: World, name: string, partOf: (region: number) => number) {
    super(world)
    this.name = name
    const { limit, keys } = world.spec
    this.#limiters = world.regions.map(
      (_, region) => new LocalLimiter(limit, partOf(region), keys ?? 1),
    )
  }

  check({ region, key, cost }: Attempt): Outcome {
    const nowUs = this.wallUs()
    return this.#limiters[region]?.admits(key, cost, nowUs) === true ? 'admitted' : 'denied'
  }

  shareOf(region: number): number {
    return this.#limiters[region]?.share ?? 0
  }
}
