import type { LimitSpec } from '../world/world.ts'

/** A bucket or a window of a part of a limit, for strategies that decide with plain local limiters. */
export class LocalLimiter {
  readonly #limit: LimitSpec
  readonly #levels: Float64Array
  readonly #atUs: Float64Array
  #share: number

  constructor(limit: LimitSpec, share: number, keys: number) {
    this.#limit = limit
    this.#share = share
    this.#levels = new Float64Array(keys).fill(this.#most())
    this.#atUs = new Float64Array(keys)
  }

  get share(): number {
    return this.#share
  }

  /** Levels are settled under the old share first; growing gives no tokens at once. */
  setShare(share: number, nowUs: number): void {
    const old = this.#most()
    for (let key = 0; key < this.#levels.length; key++) this.#settle(key, nowUs)
    this.#share = share
    // A window keeps what it has spent, a bucket what it holds.
    const gained = this.#limit.algorithm === 'fixed_window' ? this.#most() - old : 0
    for (let key = 0; key < this.#levels.length; key++) {
      this.#levels[key] = Math.min(this.#most(), (this.#levels[key] ?? 0) + gained)
    }
  }

  admits(key: number, cost: number, nowUs: number): boolean {
    this.#settle(key, nowUs)
    const level = this.#levels[key] ?? 0
    if (level < cost) return false
    this.#levels[key] = level - cost
    return true
  }

  #most(): number {
    const { algorithm, capacity, burst } = this.#limit
    if (algorithm === 'token_bucket') return burst * this.#share
    return Math.floor(capacity * this.#share + 1e-9)
  }

  #settle(key: number, nowUs: number): void {
    const { algorithm, capacity, windowMs } = this.#limit
    const windowUs = windowMs * 1_000
    const atUs = this.#atUs[key] ?? 0
    if (algorithm === 'token_bucket') {
      const refilled = (capacity * this.#share * (nowUs - atUs)) / windowUs
      this.#levels[key] = Math.min(this.#most(), (this.#levels[key] ?? 0) + refilled)
    } else if (Math.floor(nowUs / windowUs) !== Math.floor(atUs / windowUs)) {
      this.#levels[key] = this.#most()
    }
    this.#atUs[key] = nowUs
  }
}
