import { parseCounterId } from '../../shared/core/counter-id.ts'
import type { CounterId } from '../../shared/core/descriptor.ts'
import { holdingOf } from '../../shared/core/enforced.ts'
import { type CountReport, CountTable } from '../../shared/core/estimate/count-table.ts'
import { TICK_MS, URGENT_SPACING_MS } from '../../shared/core/ledger/constants.ts'
import type { LedgerState } from '../../shared/core/ledger/state.ts'
import type { Limit } from '../../shared/core/policy.ts'
import type { CountBus, RegionStore } from '../../shared/core/ports.ts'
import type { Plane } from './plane.ts'

/**
 * Keeps counters of eventual policies up to date: tells them what the others counted, and the others what they did.
 *
 * Once a tick, and sooner when a counter begins to be used or a peer has news; so what one region admits is known to
 * another's script a tick, a delay of the bus and `URGENT_SPACING_MS` later at most.
 */
export class CountExchange {
  readonly #table = new CountTable()
  #limits: ReadonlyMap<number, Limit> = new Map()
  #plane: Plane | null = null
  #isNews = false
  #exchangedMs = Number.NEGATIVE_INFINITY

  usePlane(plane: Plane): void {
    if (plane === this.#plane) return
    this.#plane = plane
    const limits = [...plane.policies.values()].flatMap((policy) =>
      policy.limits.filter((limit) => holdingOf(policy, limit) === 'estimate'),
    )
    this.#limits = new Map(limits.map((limit) => [limit.id, limit]))
  }

  /** Takes what concerns eventual policies out of `ids`; the rest is not its. */
  notice(ids: readonly CounterId[]): readonly CounterId[] {
    if (this.#limits.size === 0) return ids
    return ids.filter((id) => {
      if (this.#windowOf(id) === null) return true
      this.#table.notice(id)
      this.#isNews = true
      return false
    })
  }

  /** Takes in a peer's counts. Those of a region that is no member are nobody's. */
  hear(report: CountReport, ledger: LedgerState, nowMs: number): void {
    if (!ledger.members.includes(report.from)) return
    const storeMs = nowMs + ledger.storeOffsetMs
    if (this.#table.hear(report, storeMs, (id) => this.#windowOf(id))) this.#isNews = true
  }

  /** When the next exchange is due, by the daemon's clock. */
  get dueMs(): number {
    if (this.#limits.size === 0) return Number.POSITIVE_INFINITY
    return this.#exchangedMs + (this.#isNews ? URGENT_SPACING_MS : TICK_MS)
  }

  /** Exchanges every count; rejects as the store does, and then nothing was published. */
  async exchangeOnce(
    store: Pick<RegionStore, 'exchangeCounts'>,
    bus: Pick<CountBus, 'publish'>,
    at: { readonly ledger: LedgerState; readonly nowMs: number },
  ): Promise<void> {
    const { self, incarnation, storeOffsetMs } = at.ledger
    const storeMs = at.nowMs + storeOffsetMs
    const windowOf = (id: CounterId): number | null => this.#windowOf(id)
    this.#isNews = false
    this.#exchangedMs = at.nowMs
    this.#table.countOwn(await store.exchangeCounts(this.#table.known(storeMs, windowOf)))
    const counts = this.#table.publish()
    if (counts.length > 0) bus.publish({ from: self, incarnation, counts })
    this.#table.forgetOld(storeMs, windowOf)
  }

  #windowOf(id: CounterId): number | null {
    const parts = parseCounterId(id)
    const limit = this.#limits.get(parts?.limitId ?? -1)
    return limit?.usageEpoch === parts?.usageEpoch ? (limit?.windowMs ?? null) : null
  }
}
