/** A region of a limit that is stock: the counters in its Redis, and the book of its daemon. */

import {
  type StockAnswer,
  StockBook,
  type StockQuestion,
} from '../../../../services/sync/stock-book.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import type { Policy } from '../../../../shared/core/policy.ts'
import {
  addAllotment,
  isLow,
  type OpenedWindow,
  type SettledStock,
  type StockState,
  settleStock,
  storeStock,
  takeStock,
} from '../../../../shared/core/stock/counter.ts'
import type { RegionFaults } from '../strategies/strategy.ts'
import type { CheckOutcome } from './region-redis.ts'

export class StockRegion implements RegionFaults {
  readonly nowUs: () => number
  readonly #policy: Policy
  #book: StockBook
  #counters = new Map<CounterId, StockState>()
  #boot = { number: 1, startUs: 0, recovering: false }
  #isDaemonUp = true
  isUp = true
  #asked: StockQuestion | null = null

  constructor(policy: Policy, nowUs: () => number) {
    this.#policy = policy
    this.nowUs = nowUs
    this.#book = this.#aBook()
  }

  check(id: CounterId, cost: number): CheckOutcome {
    if (!this.isUp) return 'unavailable'
    const settled = this.#settle(id)
    const isAllowed = settled.window !== null && cost <= settled.remaining
    const after = isAllowed ? takeStock(settled, cost) : settled
    if (isAllowed) this.#counters.set(id, storeStock(after))
    if (isLow(after) && this.#isDaemonUp) this.#book.notice([id], this.nowUs() / 1_000)
    return isAllowed ? 'admitted' : 'denied'
  }

  /** Tokens of the running window that are this region's, spent or not. */
  heldOf(id: CounterId): number {
    return this.isUp ? this.#settle(id).most : 0
  }

  ask(): StockQuestion | null {
    if (!this.#isDaemonUp || !this.isUp) return null
    const nowMs = this.nowUs() / 1_000
    this.#book.forgetOld(nowMs, nowMs)
    const question = this.#book.ask(nowMs, nowMs)
    if (question !== null) this.#asked = question
    return question
  }

  take(answer: StockAnswer): void {
    if (!this.#isDaemonUp || !this.isUp) return
    if (this.#asked?.request === answer.request) this.#asked = null
    const { adds } = this.#book.take(answer, this.nowUs() / 1_000)
    for (const { id, startMs, ...add } of adds) {
      const after = addAllotment(this.#settle(id), { ...add, startUs: startMs * 1_000 })
      if (after !== null) this.#counters.set(id, storeStock(after))
    }
  }

  /** Unless it was answered by now. */
  giveUp(question: StockQuestion): void {
    if (this.#asked !== question) return
    this.#asked = null
    this.#book.askFailed(this.nowUs() / 1_000)
  }

  killDaemon(): void {
    this.#isDaemonUp = false
  }

  startDaemon(): void {
    this.#isDaemonUp = true
    this.#begin(this.#boot.number)
  }

  stopDaemon(): void {
    this.#isDaemonUp = false
  }

  resumeDaemon(): void {
    this.#isDaemonUp = true
  }

  crash(): void {
    this.isUp = false
  }

  wipe(): void {
    this.#restart(new Map())
  }

  restartRedis(): void {
    this.#restart(this.#counters)
  }

  failOver(): void {
    this.#restart(this.#counters)
  }

  setStoreLink(): void {}

  stepClock(): void {}

  /** Comes back with what its file holds, under a boot of its own. */
  #restart(counters: Map<CounterId, StockState>): void {
    this.#counters = counters
    this.isUp = true
    this.#boot = { ...this.#boot, startUs: this.nowUs() + 1 }
    this.#begin(this.#boot.number + 1)
  }

  #begin(number: number): void {
    this.#boot = { ...this.#boot, number }
    const opened = this.#book.opened
    this.#book = this.#aBook()
    this.#book.seed(opened)
    this.#asked = null
  }

  #aBook(): StockBook {
    const book = new StockBook()
    const policies = new Map([[this.#policy.id, this.#policy]])
    const head = { revision: 1, members: [], formerMembers: [], leastIncarnations: {} }
    book.usePlane({ ...head, policies, askedAtMs: 0 })
    book.beginSession(this.#boot.number)
    return book
  }

  #settle(id: CounterId): SettledStock {
    const windows = [...this.#book.opened.values()].flat().map(
      ({ startMs, endMs, floor }): OpenedWindow => ({
        startUs: startMs * 1_000,
        endUs: endMs * 1_000,
        floor,
      }),
    )
    const boot = this.#boot
    return settleStock(this.#counters.get(id) ?? null, { windows, boot, nowUs: this.nowUs() })
  }
}
