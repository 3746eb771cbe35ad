import type { CheckRecord } from './check-record.ts'

/** How fast an enforcer's clock may run against ours; the bound on a bucket carries it (docs/consistency.md). */
export const CLOCK_DRIFT = 1 / 1_000

/**
 * Tokens that were certainly admitted beyond one global token bucket, 0 when none were.
 *
 * A bucket of rate R and burst B allows at most B + R(1 + drift)(t - s) admissions between any two instants. An
 * admission surely fell between s and t when its check left at or after s and its answer was here by t. The
 * result is the largest surplus over all s and t: every doubt about an instant is decided in the limiter's
 * favour, so it never reports a false overshoot, and it misses at most what fits into one round trip.
 * (Charging each admission at its arrival instead counts a stall of ours as a burst of the limiter's.)
 */
export function bucketExcess(
  admissions: readonly CheckRecord[],
  rule: { readonly capacity: number; readonly windowMs: number; readonly burst: number },
): number {
  const ratePerMs = (rule.capacity / rule.windowMs) * (1 + CLOCK_DRIFT)
  const departures = [...new Set(admissions.map((check) => check.sentMs))].sort((a, b) => a - b)
  const indexOf = new Map(departures.map((sentMs, index) => [sentMs, index]))
  const spans = new SpanMaximum(departures.map((sentMs) => ratePerMs * sentMs))
  const byArrival = [...admissions].sort((a, b) => a.receivedMs - b.receivedMs)
  let worst = 0
  for (const check of byArrival) {
    spans.add(indexOf.get(check.sentMs) ?? 0)
    worst = Math.max(worst, spans.maximum() - ratePerMs * check.receivedMs - rule.burst)
  }
  // Sums of fractions: less than a thousandth of a token is rounding.
  return worst < 1e-3 ? 0 : Math.ceil(worst - 1e-3)
}

/**
 * Over starts i, the maximum of offset_i plus the number of additions at or after i; logarithmic per addition.
 *
 * A segment tree whose node keeps the additions below it and the best value of a start below it, counting only
 * additions below it.
 */
class SpanMaximum {
  readonly #size: number
  readonly #sum: Float64Array
  readonly #best: Float64Array
  readonly #offsets: readonly number[]

  constructor(offsets: readonly number[]) {
    this.#offsets = offsets
    this.#size = 2 ** Math.ceil(Math.log2(Math.max(1, offsets.length)))
    this.#sum = new Float64Array(2 * this.#size)
    // A start without an addition is no start: its span would begin after what it is to count.
    this.#best = new Float64Array(2 * this.#size).fill(Number.NEGATIVE_INFINITY)
  }

  add(start: number): void {
    let node = this.#size + start
    const sum = (this.#sum[node] ?? 0) + 1
    this.#sum[node] = sum
    this.#best[node] = (this.#offsets[start] ?? 0) + sum
    for (node >>= 1; node >= 1; node >>= 1) {
      const right = 2 * node + 1
      const sumRight = this.#sum[right] ?? 0
      this.#sum[node] = (this.#sum[2 * node] ?? 0) + sumRight
      this.#best[node] = Math.max(this.#best[right] ?? 0, (this.#best[2 * node] ?? 0) + sumRight)
    }
  }

  maximum(): number {
    return this.#best[1] ?? Number.NEGATIVE_INFINITY
  }
}
