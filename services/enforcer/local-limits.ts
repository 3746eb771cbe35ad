/**
 * What a policy with `onStoreFailure: local` decides by while Redis does not: a counter in memory that holds this
 * enforcer's part of the region's share.
 *
 * The region's part of a limit is divided by the enforcers that were last known to be alive, so that they admit no more
 * together than the region would have. It begins full when the outage does: beside what Redis had admitted before, up
 * to one burst or window of the region's share may pass once. What memory cannot hold (`isHeldInMemory`) is denied.
 */
import {
  allows,
  describe,
  mostAtOnce,
  type Settled,
} from '../../shared/core/algorithms/algorithm.ts'
import { algorithmOf } from '../../shared/core/algorithms/registry.ts'
import { type Decision, decideWithoutStore } from '../../shared/core/decision.ts'
import { isHeldInMemory } from '../../shared/core/enforced.ts'
import type { RegionLimit } from '../../shared/core/policy.ts'
import type { CheckTarget } from '../../shared/core/ports.ts'
import type { Clock } from '../../shared/runtime/clock.ts'

/**
 * Counters kept in each of two generations. One that is asked for moves to the young one, so callers that send many
 * others do not make an exhausted one forget.
 */
const GENERATION_COUNTERS_MAX = 10_000

interface Local {
  readonly version: number
  readonly state: unknown
}

export class LocalLimits {
  readonly #clock: Clock
  readonly #liveEnforcers: () => number
  #young = new Map<string, Local>()
  #old = new Map<string, Local>()

  constructor(options: { readonly clock: Clock; readonly liveEnforcers: () => number }) {
    this.#clock = options.clock
    this.#liveEnforcers = options.liveEnforcers
  }

  /** Counters kept. */
  get size(): number {
    return this.#young.size + this.#old.size
  }

  /** Decides all targets or none, in their order; cost 0 reads. */
  decide(targets: readonly CheckTarget[], cost: number): readonly Decision[] {
    const nowUs = Math.floor(this.#clock.wallMs() * 1_000)
    const settled = targets.map((target) => this.#settle(target, nowUs))
    const passes = settled.map((one) => one !== null && allows(one.settled, one.limit, cost))
    const isAdmitted = passes.every(Boolean)
    return settled.map((one, index) => {
      if (one === null) return decideWithoutStore('deny')
      const algorithm = algorithmOf(one.limit)
      const isPassing = passes[index] === true
      // A clock that was set back would otherwise keep it denying for as long as it was ahead.
      const { settled: found } = one
      const known = !isPassing && found.astray ? algorithm.heal(found) : found
      const after = isPassing && isAdmitted ? algorithm.take(known, cost) : known
      this.#keep(one.counter, { version: one.limit.version, state: algorithm.store(after) })
      return describe(algorithm, after, { allowed: isPassing, cost, limit: one.limit })
    })
  }

  #settle(
    { limit: shared, counter }: CheckTarget,
    nowUs: number,
  ): {
    readonly limit: RegionLimit
    readonly counter: string
    readonly settled: Settled
  } | null {
    if (!isHeldInMemory(shared)) return null
    const limit = this.#partOf(shared, nowUs)
    const known = this.#young.get(counter) ?? this.#old.get(counter)
    const state = known !== undefined && known.version === limit.version ? known.state : null
    const boot = { startUs: 0, recovering: false }
    const settled = algorithmOf(limit).settle(state, { limit, share: null, boot, nowUs })
    return { limit, counter, settled }
  }

  /** The limit with this enforcer's part as its home, full when it is first used. */
  #partOf(limit: RegionLimit, nowUs: number): RegionLimit {
    const home = Math.floor(limit.home / Math.max(1, this.#liveEnforcers()))
    const idle = { tokens: mostAtOnce(limit), atUs: nowUs }
    return { ...limit, home, previous: null, changedAtUs: 0, idle }
  }

  #keep(counter: string, local: Local): void {
    if (this.#young.size >= GENERATION_COUNTERS_MAX && !this.#young.has(counter)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(counter, local)
  }
}
