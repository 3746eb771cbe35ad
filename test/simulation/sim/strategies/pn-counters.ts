import type { World } from '../world/world.ts'
import { Baseline, zeros } from './baseline.ts'
import type { Attempt, Outcome } from './strategy.ts'

const PERIOD_MS = 1_000

/**
 * PN-counters alone: each region admits while what it knows of everybody's usage in the window is under the
 * limit, and publishes its own count each second. A bucket limit is held as windows of one second.
 */
export class PnCounters extends Baseline {
  readonly name = 'pn-counters'
  readonly #windowUs: number
  readonly #capacity: number
  /** By region and key: the window and the count of what it admitted itself. */
  readonly #own: readonly { window: number; count: number }[][]
  /** By region, key and peer: what the peer said last. */
  readonly #heard: readonly { window: number; count: number }[][][]

  constructor(world: World) {
    super(world)
    const { limit, keys = 1, regions } = world.spec
    const isBucket = limit.algorithm === 'token_bucket'
    this.#windowUs = isBucket ? 1e6 : limit.windowMs * 1_000
    this.#capacity = isBucket ? (limit.capacity * 1_000) / limit.windowMs : limit.capacity
    const fresh = () => ({ window: -1, count: 0 })
    this.#own = world.regions.map(() => zeros(keys).map(fresh))
    this.#heard = world.regions.map(() => zeros(keys).map(() => zeros(regions).map(fresh)))
  }

  override start(): void {
    this.everyRegion(PERIOD_MS, (region) => this.#publish(region))
  }

  check({ region, key, cost }: Attempt): Outcome {
    const own = this.#own[region]?.[key]
    if (own === undefined) return 'unavailable'
    const window = Math.floor(this.wallUs() / this.#windowUs)
    if (own.window !== window) Object.assign(own, { window, count: 0 })
    let known = own.count
    for (const peer of this.#heard[region]?.[key] ?? []) {
      if (peer.window === window) known += peer.count
    }
    if (known + cost > this.#capacity) return 'denied'
    own.count += cost
    return 'admitted'
  }

  shareOf(): number {
    return 1
  }

  #publish(region: number): void {
    const own = (this.#own[region] ?? []).map(({ window, count }) => ({ window, count }))
    const figures = own.flatMap(({ window, count }) => [window, count])
    this.tell(region, figures, (to) => {
      own.forEach((said, key) => {
        const known = this.#heard[to]?.[key]?.[region]
        if (known === undefined || said.window < known.window) return
        const count = said.window === known.window ? Math.max(known.count, said.count) : said.count
        Object.assign(known, { window: said.window, count })
      })
    })
  }
}
