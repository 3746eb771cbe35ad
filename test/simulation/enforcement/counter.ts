/** One counter in one region's Redis, decided by the pure twins of the scripts, with at most one rule left out. */
import {
  allows,
  type Boot,
  type Circumstances,
  type Settled,
  type Share,
} from '../../../shared/core/algorithms/algorithm.ts'
import { type AnyAlgorithm, algorithmOf } from '../../../shared/core/algorithms/registry.ts'
import type { RegionLimit } from '../../../shared/core/policy.ts'

/** What a counter meets at one instant, and the rule's own choice of what comes next. */
export interface Moment {
  readonly algorithm: AnyAlgorithm
  readonly state: unknown
  readonly circumstances: Circumstances
}

/** What a share write leaves behind; null: it was refused. */
export type Written = { readonly state: unknown } | null

/** Where a rule of enforcement can be left out. */
export interface EnforcementMutant {
  /** What the script takes to be the case. */
  readonly sees?: (moment: Moment) => Moment
  readonly writes?: (moment: Moment, share: Share, shrinks: boolean) => Written
  /** How long a state is kept, of what it should be. */
  readonly keepPart?: number
  /** Units of a window come home as soon as their loan has lapsed. */
  readonly regrowsAtOnce?: boolean
  /** A region that lost its memory has its base again as soon as it is back. */
  readonly recoversAtOnce?: boolean
}

export class RegionCounter {
  limit: RegionLimit
  boot: Boot = { startUs: 0, recovering: false }
  share: Share | null = null
  readonly #skewUs: number
  readonly #mutant: EnforcementMutant
  #state: unknown = null
  #expiresAtUs = 0

  constructor(limit: RegionLimit, skewUs: number, mutant: EnforcementMutant) {
    this.limit = limit
    this.#skewUs = skewUs
    this.#mutant = mutant
  }

  /** What this region's clock shows. */
  clockUs(realUs: number): number {
    return realUs + this.#skewUs
  }

  admits(cost: number, realUs: number): boolean {
    const { algorithm, state, circumstances } = this.#moment(realUs)
    const settled = algorithm.settle(state, circumstances)
    if (!allows(settled, circumstances.limit, cost)) return false
    this.#store(algorithm, algorithm.take(settled, cost), circumstances.nowUs)
    return true
  }

  /** False, and nothing changed, where a shrink by choice would go below what is spent. */
  writeShare(share: Share, shrinks: boolean, realUs: number): boolean {
    const moment = this.#moment(realUs)
    const write = this.#mutant.writes ?? writeFaithfully
    const written = write(moment, share, shrinks)
    if (written === null) return false
    this.share = share
    this.#state = written.state
    this.#expiresAtUs = Number.POSITIVE_INFINITY
    return true
  }

  /** The server came back without its state. */
  lose(boot: Boot): void {
    this.boot = boot
    this.#state = null
  }

  /** Untracked again: the state stays, for as long as it matters. */
  untrack(realUs: number): void {
    const { algorithm, state, circumstances } = this.#moment(realUs)
    const resized = algorithm.resize(algorithm.settle(state, circumstances), null, false)
    this.share = null
    if (resized !== null) this.#store(algorithm, resized, circumstances.nowUs)
  }

  #moment(realUs: number): Moment {
    const nowUs = this.clockUs(realUs)
    if (this.share === null && nowUs >= this.#expiresAtUs) this.#state = null
    const { limit, share, boot } = this
    const circumstances = { limit, share, boot, nowUs }
    const moment = { algorithm: algorithmOf(limit), state: this.#state, circumstances }
    return this.#mutant.sees === undefined ? moment : this.#mutant.sees(moment)
  }

  #store(algorithm: AnyAlgorithm, settled: Settled, nowUs: number): void {
    this.#state = algorithm.store(settled)
    const keepMs = algorithm.keepMs(settled) * (this.#mutant.keepPart ?? 1)
    this.#expiresAtUs = nowUs + keepMs * 1_000
  }
}

export function writeFaithfully(moment: Moment, share: Share, shrinks: boolean): Written {
  const { algorithm, state, circumstances } = moment
  const resized = algorithm.resize(algorithm.settle(state, circumstances), share, shrinks)
  return resized === null ? null : { state: algorithm.store(resized) }
}
