/**
 * What limiters with perfect knowledge would have admitted of the same attempts: the yardstick of utilisation.
 *
 * `whole` is one limiter for all regions, which no network ever cuts. `parted` is one limiter for each connected
 * part of the plane, with the base parts of its members: the best that can be had under a partition without ever
 * passing the limit. Time is that of the traffic, which begins at the edge of every window.
 */
import { hasBurst } from '../../../../shared/core/policy.ts'
import { EPOCH_US } from '../world/epoch.ts'
import type { JudgedNumbers } from './reference.ts'
import { WindowLabels } from './window-labels.ts'

export class Clairvoyant {
  #numbers: JudgedNumbers
  readonly #labels = new WindowLabels()
  /** Part of the limit of each region's group, and the group of each region. */
  #groups: readonly number[]
  #weights: readonly number[]
  readonly #keys: number
  /** By key and group: level of a bucket, or count of the running window. */
  readonly #levels: Float64Array
  readonly #atUs: Float64Array

  /** `weights` are the base parts of all regions, summing to 1. */
  constructor(numbers: JudgedNumbers, weights: readonly number[], keys: number) {
    this.#numbers = numbers
    this.#weights = weights
    this.#groups = weights.map(() => 0)
    this.#keys = keys
    this.#levels = new Float64Array(keys * weights.length)
    this.#atUs = new Float64Array(keys * weights.length)
    for (let key = 0; key < keys; key++) this.#levels[key * weights.length] = this.#full(1)
  }

  setRules(numbers: JudgedNumbers, weights: readonly number[], nowUs: number): void {
    this.#settleAll(nowUs)
    this.#numbers = numbers
    this.#weights = weights
  }

  /** `groups[region]` is the lowest region that it is connected with. Levels are split by base part. */
  setGroups(groups: readonly number[], nowUs: number): void {
    this.#settleAll(nowUs)
    const parts = this.#weights.length
    for (let key = 0; key < this.#keys; key++) {
      const own = this.#weights.map((weight, region) => {
        const group = this.#groups[region] ?? 0
        const whole = this.#partOf(group)
        return whole > 0 ? ((this.#levels[key * parts + group] ?? 0) * weight) / whole : 0
      })
      this.#levels.fill(0, key * parts, (key + 1) * parts)
      own.forEach((level, region) => {
        const at = key * parts + (groups[region] ?? 0)
        this.#levels[at] = (this.#levels[at] ?? 0) + level
      })
    }
    this.#groups = groups
  }

  admits(key: number, region: number, cost: number, nowUs: number): boolean {
    const group = this.#groups[region] ?? 0
    const at = key * this.#weights.length + group
    this.#settle(at, this.#partOf(group), nowUs)
    const level = this.#levels[at] ?? 0
    if (level < cost - 1e-9) return false
    this.#levels[at] = level - cost
    return true
  }

  #settleAll(nowUs: number): void {
    for (let at = 0; at < this.#levels.length; at++) {
      this.#settle(at, this.#partOf(at % this.#weights.length), nowUs)
    }
  }

  /** Windows are buckets that are filled at each edge and not between; so are sliding ones here, which use as much. */
  #settle(at: number, part: number, nowUs: number): void {
    const { algorithm, capacity, windowMs } = this.#numbers
    const atUs = this.#atUs[at] ?? 0
    const level = this.#levels[at] ?? 0
    const windowUs = windowMs * 1_000
    if (hasBurst(algorithm)) {
      const refilled = (capacity * part * (nowUs - atUs)) / windowUs
      this.#levels[at] = Math.min(this.#full(part), level + refilled)
    } else if (this.#startOf(nowUs) !== this.#startOf(atUs)) {
      this.#levels[at] = this.#full(part)
    }
    this.#atUs[at] = nowUs
  }

  /** Of the window by an exact wall clock. */
  #startOf(atUs: number): number {
    return this.#labels.startMs(this.#numbers, atUs + EPOCH_US)
  }

  #full(part: number): number {
    const { algorithm, capacity, burst } = this.#numbers
    return (hasBurst(algorithm) ? burst : capacity) * part
  }

  #partOf(group: number): number {
    let part = 0
    for (let region = 0; region < this.#weights.length; region++) {
      if (this.#groups[region] === group) part += this.#weights[region] ?? 0
    }
    return part
  }
}
