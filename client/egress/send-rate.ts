/**
 * A local token bucket on a monotonic clock: `burst` tokens at most, `perSecond` more each second, full at first.
 *
 * In memory and of one process; the plane's buckets are in shared/core/algorithms.
 */
export class SendRate {
  readonly #perMs: number
  readonly #burst: number
  #tokens: number
  #atMs: number

  constructor(perSecond: number, burst: number, nowMs: number) {
    this.#perMs = perSecond / 1_000
    this.#burst = burst
    this.#tokens = burst
    this.#atMs = nowMs
  }

  /** How long until `cost` tokens are there, ms; 0 when they are. */
  waitMs(cost: number, nowMs: number): number {
    this.#refill(nowMs)
    return this.#tokens >= cost ? 0 : (cost - this.#tokens) / this.#perMs
  }

  take(cost: number, nowMs: number): void {
    this.#refill(nowMs)
    this.#tokens -= cost
  }

  #refill(nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - this.#atMs)
    this.#atMs = nowMs
    this.#tokens = Math.min(this.#burst, this.#tokens + elapsedMs * this.#perMs)
  }
}
