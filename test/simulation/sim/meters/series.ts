/** Figures over time, in bins of equal length, per region. */
export class Series {
  readonly binMs: number
  readonly bins: number
  readonly regions: number
  readonly #values: Float64Array

  constructor(regions: number, durationMs: number, binMs: number) {
    this.regions = regions
    this.binMs = binMs
    this.bins = Math.max(1, Math.ceil(durationMs / binMs))
    this.#values = new Float64Array(regions * this.bins)
  }

  add(region: number, atMs: number, amount: number): void {
    const bin = Math.floor(atMs / this.binMs)
    if (bin < 0 || bin >= this.bins) return
    const at = region * this.bins + bin
    this.#values[at] = (this.#values[at] ?? 0) + amount
  }

  set(region: number, bin: number, value: number): void {
    if (bin >= 0 && bin < this.bins) this.#values[region * this.bins + bin] = value
  }

  get(region: number, bin: number): number {
    return this.#values[region * this.bins + bin] ?? 0
  }

  /** Sum over all regions of the bins that begin in [fromMs, toMs). */
  sum(fromMs: number, toMs: number): number {
    let sum = 0
    for (let region = 0; region < this.regions; region++) sum += this.sumOf(region, fromMs, toMs)
    return sum
  }

  sumOf(region: number, fromMs: number, toMs: number): number {
    const from = Math.max(0, Math.ceil(fromMs / this.binMs))
    const to = Math.min(this.bins, Math.ceil(toMs / this.binMs))
    let sum = 0
    for (let bin = from; bin < to; bin++) sum += this.get(region, bin)
    return sum
  }
}

/** Bins fine enough to date a convergence, and few enough for a day. */
export function binMsOf(durationMs: number): number {
  return durationMs <= 150_000 ? 50 : Math.ceil(durationMs / 3_000 / 100) * 100
}
