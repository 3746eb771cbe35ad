import type { CheckRecord, ReferenceLimit } from './check-record.ts'
import { clairvoyant, type DecidedAt } from './clairvoyant.ts'
import { bucketExcess } from './reference-bucket.ts'
import { windowExcess } from './reference-window.ts'

/** Throughput counts as following the load when it reaches this part of the achievable. */
const FOLLOWED = 0.95

/** How long it must stay there, and the stretch over which it is taken: shorter ones show pacing, not limits. */
const STAY_MS = 1_000
const STRETCH_MS = 500
const STEP_MS = 20

/**
 * Judges a run by what the enforcers answered, and by nothing that the plane says of itself.
 *
 * Checks without a usable answer are left out of every figure but `failed`.
 */
export class Collector {
  readonly #limits: readonly ReferenceLimit[]
  readonly #originWallMs: number
  readonly #checks: CheckRecord[] = []
  readonly #verdicts = new Map<DecidedAt, ReadonlyMap<CheckRecord, boolean>>()

  constructor(limits: readonly ReferenceLimit[], originWallMs: number) {
    this.#limits = limits
    this.#originWallMs = originWallMs
  }

  add(check: CheckRecord): void {
    this.#checks.push(check)
    this.#verdicts.clear()
  }

  /** All of them, those without a usable answer too. */
  get checks(): readonly CheckRecord[] {
    return this.#checks
  }

  get answered(): readonly CheckRecord[] {
    return this.#checks.filter((check) => check.outcome !== 'failed')
  }

  get failed(): number {
    return this.#checks.length - this.answered.length
  }

  /** Per limit, tokens certainly admitted beyond it: the worst of its counters. */
  overshoots(): readonly { readonly name: string; readonly overshoot: number }[] {
    return this.#limits.map((limit) => {
      let worst = 0
      for (const admissions of groupBy(this.#admitted(), limit.counterOf).values()) {
        worst = Math.max(worst, this.#excess(limit, admissions))
      }
      return { name: limit.name, overshoot: worst }
    })
  }

  /** Most admissions that certainly fell within one second. */
  admittedMaxPerSecond(): number {
    const sent = this.#admitted().map((check) => check.sentMs)
    const received = this.#admitted().map((check) => check.receivedMs)
    sent.sort((a, b) => a - b)
    received.sort((a, b) => a - b)
    let most = 0
    let arrived = 0
    for (const [departed, sentMs] of sent.entries()) {
      while ((received[arrived] ?? Number.POSITIVE_INFINITY) <= sentMs + 1_000) arrived++
      most = Math.max(most, arrived - departed)
    }
    return most
  }

  /**
   * Admitted tokens as a part of what one limiter for all regions would have admitted of the same traffic, the
   * instants taken in its favour.
   */
  utilisation(): number {
    const counts = [this.#ideal('sentMs'), this.#ideal('receivedMs')].map(
      (verdicts) => [...verdicts.values()].filter(Boolean).length,
    )
    const ideal = Math.max(...counts)
    return ideal === 0 ? 1 : this.#admitted().length / ideal
  }

  /** Per cent of the admitted tokens that each region admitted of the checks sent in a span. */
  split(fromMs: number, toMs: number, regions: number): readonly number[] {
    const inSpan = this.#admitted().filter(({ sentMs }) => sentMs >= fromMs && sentMs < toMs)
    return Array.from({ length: regions }, (_, region) => {
      const own = inSpan.filter((check) => check.region === region).length
      return inSpan.length === 0 ? 0 : Math.round((1_000 * own) / inSpan.length) / 10
    })
  }

  /**
   * Milliseconds from `turnMs` until admissions reach 95 % of the achievable and stay there for a second.
   *
   * The achievable is what the clairvoyant limiter admits of the same checks. Null when it never happens.
   */
  convergenceMs(turnMs: number): number | null {
    const ideal = this.#ideal('sentMs')
    const times = (checks: readonly CheckRecord[]): number[] =>
      checks.map((check) => check.sentMs).sort((a, b) => a - b)
    const admitted = times(this.#admitted())
    const achievable = times(this.answered.filter((check) => ideal.get(check)))
    const endMs = (achievable.at(-1) ?? 0) - STAY_MS
    for (let t = turnMs; t <= endMs; t += STEP_MS) {
      if (staysFollowed(admitted, achievable, t)) return Math.round(t - turnMs)
    }
    return null
  }

  /** Round-trip time that this part (0..1) of the checks stayed within, ms. */
  roundTripMs(part: number): number {
    const times = this.answered.map((check) => check.receivedMs - check.sentMs)
    times.sort((a, b) => a - b)
    const index = Math.min(times.length - 1, Math.ceil(part * times.length) - 1)
    return Math.round(100 * (times[Math.max(0, index)] ?? 0)) / 100
  }

  #admitted(): readonly CheckRecord[] {
    return this.#checks.filter((check) => check.outcome === 'admitted')
  }

  #ideal(decidedAt: DecidedAt): ReadonlyMap<CheckRecord, boolean> {
    const known = this.#verdicts.get(decidedAt)
    if (known !== undefined) return known
    const { answered } = this
    const originWallMs = this.#originWallMs
    const verdicts = clairvoyant(answered, this.#limits, { decidedAt, originWallMs })
    this.#verdicts.set(decidedAt, verdicts)
    return verdicts
  }

  #excess({ rule }: ReferenceLimit, admissions: readonly CheckRecord[]): number {
    return rule.algorithm === 'token_bucket'
      ? bucketExcess(admissions, rule)
      : windowExcess(admissions, rule, this.#originWallMs)
  }
}

function staysFollowed(
  admitted: readonly number[],
  achievable: readonly number[],
  fromMs: number,
): boolean {
  for (let t = fromMs; t <= fromMs + STAY_MS - STRETCH_MS; t += STEP_MS) {
    const wanted = FOLLOWED * countBetween(achievable, t, t + STRETCH_MS)
    if (countBetween(admitted, t, t + STRETCH_MS) < Math.floor(wanted)) return false
  }
  return true
}

function countBetween(sorted: readonly number[], from: number, to: number): number {
  return firstAtOrAfter(sorted, to) - firstAtOrAfter(sorted, from)
}

function firstAtOrAfter(sorted: readonly number[], value: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] ?? 0) < value) low = middle + 1
    else high = middle
  }
  return low
}

function groupBy(
  checks: readonly CheckRecord[],
  keyOf: (check: CheckRecord) => string,
): ReadonlyMap<string, readonly CheckRecord[]> {
  const groups = new Map<string, CheckRecord[]>()
  for (const check of checks) {
    const group = groups.get(keyOf(check))
    if (group === undefined) groups.set(keyOf(check), [check])
    else group.push(check)
  }
  return groups
}
