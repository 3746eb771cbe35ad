import type { CheckTarget } from '../../shared/core/ports.ts'
import { unleasable } from './leasable.ts'

/** Checks of a counter within HOT_TICKS from which on it is leased: about 1,000 a second and more. */
const HOT_CHECKS = 48
const HOT_TICKS = 2

/** One check in so many is looked at for its counters: most are of counters that are not hot. */
const SAMPLE = 4

/** Most counters that are watched at once. One that is not seen to be hot is only slower. */
const WATCHED_MAX = 4_096

/** Finds the counters that are asked for so often that a lease saves something. */
export class HotCounters {
  readonly #watched = new Map<string, number>()
  #unsampled = 0
  #ticks = 0

  /** Those of `targets` that are hot by now; none of most checks. */
  see(targets: readonly CheckTarget[], cost: number): readonly CheckTarget[] {
    if (!this.#isSampled(cost)) return NONE
    return targets.filter(
      (target) => unleasable(target.limit) === null && this.#isHot(target.counter),
    )
  }

  /** Whether `target` is hot by now. */
  seeOne(target: CheckTarget, cost: number): boolean {
    return this.#isSampled(cost) && unleasable(target.limit) === null && this.#isHot(target.counter)
  }

  tick(): void {
    this.#ticks += 1
    if (this.#ticks % HOT_TICKS === 0) this.#watched.clear()
  }

  #isSampled(cost: number): boolean {
    this.#unsampled += 1
    if (this.#unsampled < SAMPLE || cost === 0) return false
    this.#unsampled = 0
    return true
  }

  #isHot(counter: string): boolean {
    const seen = (this.#watched.get(counter) ?? 0) + 1
    if (seen > 1 || this.#watched.size < WATCHED_MAX) this.#watched.set(counter, seen)
    return seen * SAMPLE >= HOT_CHECKS
  }
}

const NONE: readonly CheckTarget[] = []
