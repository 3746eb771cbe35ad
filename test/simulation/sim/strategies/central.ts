import type { World } from '../world/world.ts'
import { Baseline } from './baseline.ts'
import { LocalLimiter } from './local-limiter.ts'
import type { Attempt, Outcome } from './strategy.ts'

/** How long a caller waits for the central limiter before it takes silence for a denial. */
const PATIENCE_MS = 1_000

/** One limiter for the whole plane in the first region: never over, and every check of the others crosses the WAN. */
export class Central extends Baseline {
  readonly name = 'central'
  readonly #limiter: LocalLimiter

  constructor(world: World) {
    super(world)
    this.#limiter = new LocalLimiter(world.spec.limit, 1, world.spec.keys ?? 1)
  }

  check(attempt: Attempt): Outcome {
    const { network, queue, meter } = this.world
    const { region, key, cost } = attempt
    if (region === 0) return this.#decide(key, cost) ? 'admitted' : 'denied'
    const askedUs = queue.nowUs
    let isOpen = true
    const close = (isAllowed: boolean): void => {
      if (!isOpen) return
      isOpen = false
      meter.waitMs += (queue.nowUs - askedUs) / 1_000
      attempt.onAnswer?.(isAllowed)
    }
    const count = { ...attempt, onAnswer: null }
    this.world.countMessage(CHECK_BYTES)
    network.send(region, 0, () => {
      const isAllowed = this.#decide(key, cost)
      this.world.settle(count, isAllowed)
      network.send(0, region, () => close(isAllowed))
    })
    queue.after(PATIENCE_MS * 1_000, () => close(false))
    return 'pending'
  }

  shareOf(): number {
    return 1 / this.world.spec.regions
  }

  #decide(key: number, cost: number): boolean {
    return this.#limiter.admits(key, cost, this.wallUs())
  }
}

/** A small request over a kept connection. */
const CHECK_BYTES = 120
