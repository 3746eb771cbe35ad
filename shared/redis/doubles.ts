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

  get byteLength(): number {
    return this.#length * Float64Array.BYTES_PER_ELEMENT
  }

  push(value: number): void {
    if (this.#length === this.#values.length) this.#grow()
    this.#values[this.#length] = value
    this.#length += 1
  }

  clear(): void {
    this.#length = 0
  }

  /** Writes all of them into `target` and gives the position behind them. */
  copyTo(target: Buffer, position: number): number {
    target.set(this.#bytes.subarray(0, this.byteLength), position)
    return position + this.byteLength
  }

  #grow(): void {
    const values = new Float64Array(this.#values.length * 2)
    values.set(this.#values)
    this.#values = values
    this.#bytes = new Uint8Array(values.buffer)
  }
}
