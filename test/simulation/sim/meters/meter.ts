/** Everything that is measured of one run. Told of each attempt; asked at the end. */
import type { RegionId } from '../../../../shared/core/policy.ts'
import { Clairvoyant } from './clairvoyant.ts'
import { jainOfRegions } from './fairness.ts'
import { type JudgedNumbers, Reference } from './reference.ts'
import { binMsOf, Series } from './series.ts'

export interface MeterSpec {
  readonly regions: readonly RegionId[]
  readonly numbers: JudgedNumbers
  /** Tokens a window beyond the limit that are no excess. */
  readonly allowance?: number
  readonly weights: readonly number[]
  readonly keys: number
  readonly durationMs: number
  /** Where utilisation and fairness are judged. */
  readonly judge: { readonly fromMs: number; readonly toMs: number }
  /** Since when convergence is timed; null where nothing happens. */
  readonly stepAtMs: number | null
}

/** A share that no rule of the protocol allows, or another broken rule. */
export interface Violation {
  readonly atMs: number
  readonly what: string
}

/** Utilisation at which a plane counts as converged, and how long it must stay there. */
const CONVERGED_PART = 0.95
const CONVERGED_MS = 1_000

export class Meter {
  readonly spec: MeterSpec
  readonly reference: Reference
  readonly whole: Clairvoyant
  readonly parted: Clairvoyant
  readonly offered: Series
  readonly admitted: Series
  readonly shares: Series
  readonly #ideal: Series
  readonly #idealParted: Series
  readonly violations: Violation[] = []
  attempts = 0
  bytes = 0
  messages = 0
  waitMs = 0
  #churn = 0
  #sampled = 0
  #held = 0
  #heldMost = 0
  #heldSampled = 0
  #weights: readonly number[]

  constructor(spec: MeterSpec) {
    this.spec = spec
    const { numbers, weights, keys, durationMs, allowance = 0 } = spec
    this.#weights = weights
    const judged = { ...numbers, capacity: numbers.capacity + allowance }
    this.reference = new Reference(judged, keys)
    this.whole = new Clairvoyant(numbers, weights, keys)
    this.parted = new Clairvoyant(numbers, weights, keys)
    const binMs = binMsOf(durationMs)
    this.offered = new Series(weights.length, durationMs, binMs)
    this.admitted = new Series(weights.length, durationMs, binMs)
    this.shares = new Series(weights.length, durationMs, binMs)
    this.#ideal = new Series(1, durationMs, binMs)
    this.#idealParted = new Series(1, durationMs, binMs)
  }

  /** New numbers are in force for a clairvoyant limiter as soon as they are saved. */
  setIdeal(numbers: JudgedNumbers, weights: readonly number[], atMs: number): void {
    this.#weights = weights
    for (const ideal of [this.whole, this.parted]) ideal.setRules(numbers, weights, atMs * 1_000)
  }

  /** `isReachable`: there was a limiter to ask in that region at all. */
  onAttempt(attempt: {
    readonly region: number
    readonly key: number
    readonly cost: number
    readonly atMs: number
    readonly isReachable: boolean
  }): void {
    const { region, key, cost, atMs } = attempt
    const atUs = atMs * 1_000
    this.attempts++
    this.offered.add(region, atMs, cost)
    if (this.whole.admits(key, region, cost, atUs)) this.#ideal.add(0, atMs, cost)
    if (!attempt.isReachable) return
    if (this.parted.admits(key, region, cost, atUs)) this.#idealParted.add(0, atMs, cost)
  }

  sampleShares(bin: number, shares: readonly number[]): void {
    shares.forEach((share, region) => {
      if (bin > 0) this.#churn += Math.abs(share - this.shares.get(region, bin - 1))
      this.shares.set(region, bin, share)
    })
    this.#sampled++
    const atMs = bin * this.shares.binMs
    if (atMs < this.spec.judge.fromMs || atMs >= this.spec.judge.toMs) return
    const held = shares.reduce((sum, share) => sum + share, 0)
    this.#held += held
    this.#heldMost = Math.max(this.#heldMost, held)
    this.#heldSampled++
  }

  /** Part of the limit that all regions together hold, on average; what is on its way between them is nowhere. */
  held(): number {
    return ratio(this.#held, this.#heldSampled)
  }

  heldMost(): number {
    return this.#heldMost
  }

  utilisation(): number {
    const { fromMs, toMs } = this.spec.judge
    return ratio(this.admitted.sum(fromMs, toMs), this.#ideal.sum(fromMs, toMs))
  }

  utilisationParted(): number {
    const { fromMs, toMs } = this.spec.judge
    return ratio(this.admitted.sum(fromMs, toMs), this.#idealParted.sum(fromMs, toMs))
  }

  /**
   * What regions may use and want, of what a perfect allocator could give them: no share of the limit counts that its
   * region has no use for. Second by second, so demand should be paced: noise would count as wants.
   */
  handedOut(): number {
    const { judge, numbers, weights } = this.spec
    const { binMs } = this.shares
    const perBin = (numbers.capacity * binMs) / numbers.windowMs
    // Whole bins: long runs have bins that no second is a multiple of.
    const bins = Math.ceil(1_000 / binMs)
    const spanMs = bins * binMs
    let [given, wanted] = [0, 0]
    for (let at = judge.fromMs; at + spanMs <= judge.toMs; at += spanMs) {
      let [used, wants] = [0, 0]
      weights.forEach((_, region) => {
        const want = this.offered.sumOf(region, at, at + spanMs)
        used += Math.min(want, this.shares.sumOf(region, at, at + spanMs) * perBin)
        wants += want
      })
      given += used
      wanted += Math.min(wants, bins * perBin)
    }
    return ratio(given, wanted)
  }

  /** Part of all that was asked that a clairvoyant limiter would have admitted in its second, and this refused. */
  falseDenials(): number {
    const { fromMs, toMs } = this.spec.judge
    const spanMs = Math.max(1_000, this.offered.binMs)
    let missed = 0
    for (let at = fromMs; at < toMs; at += spanMs) {
      const to = Math.min(toMs, at + spanMs)
      missed += Math.max(0, this.#ideal.sum(at, to) - this.admitted.sum(at, to))
    }
    return ratio(missed, this.offered.sum(fromMs, toMs), 0)
  }

  /** Until what follows for a second is 95 % of the clairvoyant's; null where nothing is timed or it never is. */
  convergenceMs(): number | null {
    const { stepAtMs, durationMs } = this.spec
    if (stepAtMs === null) return null
    const { binMs } = this.admitted
    for (let at = stepAtMs; at + CONVERGED_MS <= durationMs; at += binMs) {
      const ideal = this.#ideal.sum(at, at + CONVERGED_MS)
      if (this.admitted.sum(at, at + CONVERGED_MS) >= CONVERGED_PART * ideal) return at - stepAtMs
    }
    return null
  }

  jain(): number {
    const { numbers, judge } = this.spec
    const tokensPerSecond = (numbers.capacity * this.spec.keys * 1_000) / numbers.windowMs
    const fair = { weights: this.#weights, tokensPerSecond }
    return jainOfRegions(this.offered, this.admitted, judge, fair)
  }

  /** Units that changed hands each second, as a part of the limit. */
  churn(): number {
    const seconds = (this.#sampled * this.offered.binMs) / 1_000
    return ratio(this.#churn, seconds, 0)
  }

  bytesPerSecondPerRegion(): number {
    return this.bytes / (this.spec.durationMs / 1_000) / this.spec.regions.length
  }

  messagesPerSecondPerRegion(): number {
    return this.messages / (this.spec.durationMs / 1_000) / this.spec.regions.length
  }
}

function ratio(part: number, whole: number, empty = 1): number {
  return whole > 0 ? part / whole : empty
}
