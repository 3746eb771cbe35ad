/**
 * The product's long windows: floors that are pinned when a window opens, and tokens that admin allots for good.
 *
 * The daemon's book, the account of a counter and the counter itself are the product's own code.
 */

import { splitBase } from '../../../../shared/core/base-split.ts'
import { counterId } from '../../../../shared/core/counter-id.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import { allot, floorsOf, type Tokens } from '../../../../shared/core/stock/pool.ts'
import { windowAt } from '../../../../shared/core/stock/stock-limit.ts'
import type { StockReply, StockRequest } from '../../../../shared/protocol/stock-messages.ts'
import { aPolicy } from '../../../support/memory-plane.ts'
import { StockRegion } from '../region/stock-region.ts'
import type { World } from '../world/world.ts'
import { Baseline } from './baseline.ts'
import type { Attempt, Outcome } from './strategy.ts'

/** A daemon looks this often whether it wants anything. */
const ASK_MS = 1_000

export class Stock extends Baseline {
  readonly name = 'loans'
  override readonly faults: readonly StockRegion[]
  readonly #ids: readonly CounterId[]
  readonly #floors = new Map<string, Tokens>()
  readonly #allotted = new Map<string, Tokens>()

  constructor(world: World) {
    super(world)
    const { limit, keys = 1 } = world.spec
    this.#ids = Array.from({ length: keys }, (_, key) =>
      counterId({ group: 0, limitId: 1, usageEpoch: 0, name: `tenant=k${key}` }),
    )
    const weights = Object.fromEntries(
      world.regions.map((region, index) => [region, world.weights[index] ?? 0]),
    )
    const { capacity, windowMs, floorPercent = 2, calendar = null } = limit
    const base = splitBase(weights, capacity)
    const numbers = { capacity, windowMs, calendar, floorPercent, base }
    const policy = aPolicy({ ...numbers, algorithm: 'fixed_window', burst: capacity })
    const prng = world.prng.fork('clocks')
    const skewUs = world.clocks.skewMs * 1_000
    this.faults = world.regions.map(() => {
      const offUs = Math.round(prng.between(-skewUs, skewUs))
      return new StockRegion(policy, () => this.wallUs() + offUs)
    })
  }

  override start(): void {
    this.everyRegion(ASK_MS, (region) => this.#askOnce(region))
  }

  check({ region, key, cost }: Attempt): Outcome {
    const id = this.#ids[key]
    const at = this.faults[region]
    return id === undefined || at === undefined ? 'unavailable' : at.check(id, cost)
  }

  override isReachable(region: number): boolean {
    return this.faults[region]?.isUp === true
  }

  shareOf(region: number): number {
    const [id] = this.#ids
    if (id === undefined) return 0
    return (this.faults[region]?.heldOf(id) ?? 0) / this.world.spec.limit.capacity
  }

  override labelUs(region: number): number {
    return this.faults[region]?.nowUs() ?? 0
  }

  #askOnce(region: number): void {
    const at = this.faults[region]
    const question = at?.ask() ?? null
    if (at === undefined || question === null) return
    const { network, adminPlace } = this.world
    this.world.countMessage(JSON.stringify(question.request).length)
    network.send(region, adminPlace, () => {
      const reply = this.#answer(this.world.regions[region] ?? '', question.request)
      network.send(adminPlace, region, () => at.take({ ...question, reply }))
    })
    // What got no answer by the next look counts as failed; the book waits longer each time.
    this.world.queue.after(ASK_MS * 900, () => at.giveUp(question))
  }

  /** Admin's transaction. */
  #answer(region: string, request: Omit<StockRequest, 'v'>): StockReply {
    const { limit } = this.world.spec
    const windows = request.windows.map(({ atMs, limitId, usageEpoch }) => {
      const { startMs, endMs } = windowAt(limit, atMs)
      const floor = this.#floorsOf(startMs)[region] ?? 0
      return { limitId, usageEpoch, startMs, endMs, floor }
    })
    const allotted = request.asks.map(({ want, ...ask }) => {
      const key = `${ask.startMs} ${ask.counter}`
      const known = this.#allotted.get(key) ?? {}
      const pool = {
        capacity: limit.capacity,
        floors: this.#floorsOf(ask.startMs),
        allotted: known,
      }
      const given = allot(pool, { region, want })
      this.#allotted.set(key, { ...known, [region]: given.to })
      return { ...ask, ...given }
    })
    return { v: 1, windows, allotted }
  }

  #floorsOf(startMs: number): Tokens {
    const { capacity, floorPercent = 2 } = this.world.spec.limit
    const known = this.#floors.get(`${startMs}`)
    if (known !== undefined) return known
    const weights = Object.fromEntries(
      this.world.regions.map((region, index) => [region, this.world.weights[index] ?? 0]),
    )
    const floors = floorsOf({ capacity, floorPercent, base: splitBase(weights, capacity) })
    this.#floors.set(`${startMs}`, floors)
    return floors
  }
}
