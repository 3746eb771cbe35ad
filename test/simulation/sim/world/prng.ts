/**
 * The simulator's only source of randomness: sfc32, seeded, 2^128 of state and fast enough for each check.
 *
 * Every part of a world draws from a stream of its own, forked by name, so that one more draw in one part does
 * not change what all others do and two strategies meet the same arrivals.
 */
export class Prng {
  #a: number
  #b: number
  #c: number
  #counter = 1
  readonly #seed: number

  constructor(seed: number) {
    this.#seed = seed >>> 0
    this.#a = this.#seed
    this.#b = Math.imul(this.#seed ^ 0x9e3779b9, 0x85ebca6b)
    this.#c = Math.floor(seed / 0x1_0000_0000) ^ 0xc2b2ae35
    for (let round = 0; round < 12; round++) this.next()
  }

  /** A stream that depends on this one's seed and the name only, not on what was drawn. */
  fork(name: string): Prng {
    let hash = this.#seed ^ 0x811c9dc5
    for (let index = 0; index < name.length; index++) {
      hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193)
    }
    return new Prng(hash >>> 0)
  }

  /** In [0, 1). */
  next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum
    this.#c |= 0
    return (sum >>> 0) / 0x1_0000_0000
  }

  /** A whole number in [0, below). */
  below(below: number): number {
    return Math.floor(this.next() * below)
  }

  between(least: number, most: number): number {
    return least + this.next() * (most - least)
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability
  }

  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next())
  }

  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.below(items.length)] ?? items[0]
  }

  /** Number of events of a Poisson process in an interval that expects `mean` of them. */
  poisson(mean: number): number {
    if (mean <= 0) return 0
    if (mean > POISSON_EXACT_MAX)
      return Math.max(0, Math.round(mean + Math.sqrt(mean) * this.#normal()))
    const least = Math.exp(-mean)
    let count = 0
    let product = this.next()
    while (product > least) {
      count++
      product *= this.next()
    }
    return count
  }

  #normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()))
    return radius * Math.cos(2 * Math.PI * this.next())
  }
}

/** Above this the normal approximation is closer than what any figure here resolves. */
const POISSON_EXACT_MAX = 64
