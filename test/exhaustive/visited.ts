/**
 * The set of states seen, by 64 bits of hash, and how each was reached first.
 *
 * Two different states with one hash would be taken for one: among n states that happens with a probability of
 * about n^2 / 2^65, under one in a hundred thousand for ten million. A few bytes a state are what makes tens of
 * millions of them fit.
 */
const SLOTS_AT_FIRST = 1 << 16

export class VisitedStates {
  #high = new Uint32Array(SLOTS_AT_FIRST)
  #low = new Uint32Array(SLOTS_AT_FIRST)
  #used = new Uint8Array(SLOTS_AT_FIRST)
  #parents = new Int32Array(SLOTS_AT_FIRST)
  #choices = new Uint16Array(SLOTS_AT_FIRST)
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Adds a state reached from state number `parent` by its `choice`-th action. False: it was seen before. */
  add(bytes: Uint8Array, length: number, parent: number, choice: number): boolean {
    const [high, low] = hash(bytes, length)
    if (!this.#insert(high, low)) return false
    if (this.#count === this.#parents.length) this.#growLog()
    this.#parents[this.#count] = parent
    this.#choices[this.#count] = choice
    this.#count += 1
    return true
  }

  /** The choices that lead from the first state to state number `index`. */
  pathTo(index: number): readonly number[] {
    const path: number[] = []
    for (let state = index; state > 0; state = this.#parents[state] ?? 0) {
      path.push(this.#choices[state] ?? 0)
    }
    return path.reverse()
  }

  #insert(high: number, low: number): boolean {
    if (this.#count * 2 >= this.#used.length) this.#growTable()
    const mask = this.#used.length - 1
    let slot = low & mask
    while (this.#used[slot] === 1) {
      if (this.#high[slot] === high && this.#low[slot] === low) return false
      slot = (slot + 1) & mask
    }
    this.#put(slot, high, low)
    return true
  }

  #put(slot: number, high: number, low: number): void {
    this.#used[slot] = 1
    this.#high[slot] = high
    this.#low[slot] = low
  }

  #growTable(): void {
    const [highs, lows, used] = [this.#high, this.#low, this.#used]
    const size = used.length * 2
    this.#high = new Uint32Array(size)
    this.#low = new Uint32Array(size)
    this.#used = new Uint8Array(size)
    for (let old = 0; old < used.length; old++) {
      if (used[old] !== 1) continue
      const [high, low] = [highs[old] ?? 0, lows[old] ?? 0]
      let slot = low & (size - 1)
      while (this.#used[slot] === 1) slot = (slot + 1) & (size - 1)
      this.#put(slot, high, low)
    }
  }

  #growLog(): void {
    const [parents, choices] = [this.#parents, this.#choices]
    this.#parents = new Int32Array(parents.length * 2)
    this.#choices = new Uint16Array(choices.length * 2)
    this.#parents.set(parents)
    this.#choices.set(choices)
  }
}

/** Two independent 32-bit multiply-and-rotate hashes, finished so that every bit of the input reaches every bit. */
function hash(bytes: Uint8Array, length: number): readonly [high: number, low: number] {
  let high = 0x9747b28c ^ length
  let low = 0x85ebca6b
  for (let index = 0; index < length; index++) {
    const byte = (bytes[index] ?? 0) + 1
    high = Math.imul(high ^ byte, 0xcc9e2d51)
    high = (high << 13) | (high >>> 19)
    low = Math.imul(low + byte, 0x1b873593) ^ high
    low = (low << 15) | (low >>> 17)
  }
  return [finish(high ^ low), finish(low + Math.imul(high, 5))]
}

function finish(value: number): number {
  let mixed = value ^ (value >>> 16)
  mixed = Math.imul(mixed, 0x85ebca6b)
  mixed ^= mixed >>> 13
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
