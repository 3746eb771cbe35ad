/** Enough for the checks of a usual batch; it grows where that is not. */
const CAPACITY = 1_024

/**
 * Doubles that are gathered one by one and leave as bytes that struct.unpack('<d…') reads.
 *
 * Made to be cleared and used again: allocating typed arrays for each batch costs more than filling them.
 */
export class Doubles {
  #values = new Float64Array(CAPACITY)
  #bytes = new Uint8Array(this.#values.buffer)
  #length = 0

  push(value: number): void {
    if (this.#length === this.#values.length) this.#grow()
    this.#values[this.#length] = value
    this.#length += 1
  }

  clear(): void {
    this.#length = 0
  }

  /** All of them; valid until the next change. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length * Float64Array.BYTES_PER_ELEMENT)
  }

  #grow(): void {
    const values = new Float64Array(this.#values.length * 2)
    values.set(this.#values)
    this.#values = values
    this.#bytes = new Uint8Array(values.buffer)
  }
}
