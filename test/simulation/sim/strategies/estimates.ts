/**
 * The product's eventual mode: each region counts for itself and is told what the others counted.
 *
 * What is exchanged, and when, is the product's own table of counts; a counter is what `lua/_estimate.lua` makes of it.
 */
import { counterId } from '../../../../shared/core/counter-id.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import { CountTable } from '../../../../shared/core/estimate/count-table.ts'
import { TICK_MS, URGENT_SPACING_MS } from '../../../../shared/core/ledger/constants.ts'
import { encodeCounts } from '../../../../shared/protocol/counts.ts'
import type { World } from '../world/world.ts'
import { Baseline } from './baseline.ts'
import type { Attempt, Outcome } from './strategy.ts'

interface Counter {
  startMs: number
  used: number
  /** What others are known to have admitted in this window; null while the daemon does not keep it up to date. */
  foreign: number | null
}

interface Region {
  readonly skewUs: number
  readonly table: CountTable
  readonly counters: Map<CounterId, Counter>
  isNews: boolean
  exchangedMs: number
}

export class Estimates extends Baseline {
  readonly name = 'loans'
  readonly #regions: readonly Region[]
  readonly #ids: readonly CounterId[]
  readonly #windowMs: number
  readonly #capacity: number

  constructor(world: World) {
    super(world)
    const { limit, keys = 1 } = world.spec
    this.#windowMs = limit.windowMs
    this.#capacity = limit.capacity
    this.#ids = Array.from({ length: keys }, (_, key) =>
      counterId({ group: 0, limitId: 1, usageEpoch: 0, name: `tenant=k${key}` }),
    )
    const prng = world.prng.fork('clocks')
    const skewUs = world.clocks.skewMs * 1_000
    this.#regions = world.regions.map(() => ({
      skewUs: Math.round(prng.between(-skewUs, skewUs)),
      table: new CountTable(),
      counters: new Map(),
      isNews: false,
      exchangedMs: Number.NEGATIVE_INFINITY,
    }))
  }

  override start(): void {
    this.everyRegion(URGENT_SPACING_MS, (region) => this.#exchangeIfDue(region))
  }

  check({ region, key, cost }: Attempt): Outcome {
    const at = this.#regions[region]
    const id = this.#ids[key]
    if (at === undefined || id === undefined) return 'unavailable'
    const counter = this.#counterOf(at, id, this.labelUs(region) / 1_000)
    if (counter.foreign === null) {
      at.table.notice(id)
      at.isNews = true
    }
    if (counter.used + (counter.foreign ?? 0) + cost > this.#capacity) return 'denied'
    counter.used += cost
    return 'admitted'
  }

  shareOf(): number {
    return 1
  }

  override labelUs(region: number): number {
    return this.wallUs() + (this.#regions[region]?.skewUs ?? 0)
  }

  /** The counter in the window that runs; a window that the clock has left already is never opened again. */
  #counterOf({ counters }: Region, id: CounterId, nowMs: number): Counter {
    const startMs = Math.floor(nowMs / this.#windowMs) * this.#windowMs
    const known = counters.get(id)
    if (known !== undefined && known.startMs >= startMs) return known
    const fresh = { startMs, used: 0, foreign: null }
    counters.set(id, fresh)
    return fresh
  }

  #exchangeIfDue(region: number): void {
    const at = this.#regions[region]
    if (at === undefined) return
    const nowMs = this.world.nowMs()
    if (nowMs < at.exchangedMs + (at.isNews ? URGENT_SPACING_MS : TICK_MS)) return
    at.isNews = false
    at.exchangedMs = nowMs
    this.#exchange(at, region)
  }

  #exchange(at: Region, region: number): void {
    const storeMs = this.labelUs(region) / 1_000
    const windowOf = (): number => this.#windowMs
    for (const { id, startMs, used } of at.table.known(storeMs, windowOf)) {
      const counter = this.#counterOf(at, id, storeMs)
      if (counter.startMs === startMs) counter.foreign = Math.max(counter.foreign ?? 0, used)
    }
    at.table.countOwn([...at.counters].map(([id, { startMs, used }]) => ({ id, startMs, used })))
    const counts = at.table.publish()
    at.table.forgetOld(storeMs, windowOf)
    if (counts.length === 0) return
    const report = { from: this.world.regions[region] ?? '', incarnation: 1, counts }
    for (const text of encodeCounts(report)) this.world.countMessage(text.length)
    this.#regions.forEach((other, to) => {
      if (to === region) return
      this.world.network.send(region, to, () => {
        if (other.table.hear(report, this.labelUs(to) / 1_000, windowOf)) other.isNews = true
      })
    })
  }
}
