import { splitBase } from '../../../shared/core/base-split.ts'
import type { LedgerLimit, RegionRecord } from '../../../shared/core/ledger/types.ts'
import type { Plane } from './store.ts'

/** Admin with its database: one open epoch a limit, closed once every region said that it adopted. */
export class Planner {
  plane: Plane
  readonly #regions: readonly string[]
  readonly #adopted = new Map<number, Set<string>>()
  epochs = 0

  constructor(regions: readonly string[], limits: readonly LedgerLimit[]) {
    this.#regions = regions
    this.plane = { revision: 1, limits: new Map(limits.map((limit) => [limit.id, limit])) }
  }

  /** True when no epoch is open. */
  get isComplete(): boolean {
    return [...this.plane.limits.values()].every((limit) => limit.previousBase === null)
  }

  openEpoch(limitId: number, weights: Record<string, number>): boolean {
    const limit = this.plane.limits.get(limitId)
    if (limit === undefined || limit.previousBase !== null) return false
    const base = splitBase(weights, limit.capacity)
    this.#adopted.set(limitId, new Set())
    this.#change({ ...limit, epoch: limit.epoch + 1, base, previousBase: limit.base })
    return true
  }

  /** Takes note of what a record adopts; true when that completed an epoch. */
  hear(record: RegionRecord): boolean {
    let isComplete = false
    for (const [limitId, epoch] of Object.entries(record.adopted)) {
      const limit = this.plane.limits.get(Number(limitId))
      const adopted = this.#adopted.get(Number(limitId))
      if (limit?.previousBase == null || adopted === undefined || epoch < limit.epoch) continue
      adopted.add(record.from)
      if (adopted.size < this.#regions.length) continue
      this.#change({ ...limit, previousBase: null })
      this.epochs += 1
      isComplete = true
    }
    return isComplete
  }

  #change(limit: LedgerLimit): void {
    const { revision, limits } = this.plane
    this.plane = { revision: revision + 1, limits: new Map(limits).set(limit.id, limit) }
  }
}
