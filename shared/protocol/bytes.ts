/** Numbers and strings as bytes, for messages that are too many to be sent as text. */

/** Thrown by a reader that meets what no writer makes; the caller refuses the message. */
export class MalformedBytes extends Error {}

const SEVEN_BITS = 128
const THIRTY_ONE_BITS = 0x80000000

/** Bytes that a safe integer needs at seven bits each. */
const VARINT_BYTES_MAX = 8

const decoder = new TextDecoder('utf-8', { fatal: true })

/** Grows as it is written to. */
export class ByteWriter {
  #bytes: Buffer
  #size = 0

  constructor(sizeHint = 1_024) {
    this.#bytes = Buffer.allocUnsafe(sizeHint)
  }

  get size(): number {
    return this.#size
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#size++] = value
  }

  /** A whole number from 0 to 2^53 - 1, seven bits a byte, the lowest first. */
  whole(value: number): void {
    this.#reserve(VARINT_BYTES_MAX)
    let rest = value
    while (rest >= THIRTY_ONE_BITS) {
      this.#bytes[this.#size++] = (rest % SEVEN_BITS) | SEVEN_BITS
      rest = Math.floor(rest / SEVEN_BITS)
    }
    while (rest >= SEVEN_BITS) {
      this.#bytes[this.#size++] = (rest & (SEVEN_BITS - 1)) | SEVEN_BITS
      rest >>>= 7
    }
    this.#bytes[this.#size++] = rest
  }

  /** The length in bytes, then UTF-8. */
  text(value: string): void {
    const length = Buffer.byteLength(value)
    this.whole(length)
    this.#reserve(length)
    this.#size += this.#bytes.write(value, this.#size)
  }

  bytes(part: Uint8Array): void {
    this.#reserve(part.byteLength)
    this.#bytes.set(part, this.#size)
    this.#size += part.byteLength
  }

  /** What was written; not copied, so the writer must not be used after. */
  result(): Uint8Array {
    return this.#bytes.subarray(0, this.#size)
  }

  #reserve(more: number): void {
    if (this.#size + more <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.#size + more))
    this.#bytes.copy(grown, 0, 0, this.#size)
    this.#bytes = grown
  }
}

/** Reads what a ByteWriter wrote; every method throws MalformedBytes for anything else. */
export class ByteReader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  byte(): number {
    const value = this.#bytes[this.#at++]
    if (value === undefined) throw new MalformedBytes('it ends too soon')
    return value
  }

  /** A whole number of at most `most`. */
  whole(most: number = Number.MAX_SAFE_INTEGER): number {
    let value = 0
    let factor = 1
    for (let count = 1; ; count++) {
      const next = this.byte()
      value += (next % SEVEN_BITS) * factor
      if (next < SEVEN_BITS) break
      if (count === VARINT_BYTES_MAX) throw new MalformedBytes('a number is too long')
      factor *= SEVEN_BITS
    }
    if (value > most) throw new MalformedBytes(`a number is above ${most}`)
    return value
  }

  text(bytesMax: number): string {
    const part = this.bytes(this.whole(bytesMax))
    try {
      return decoder.decode(part)
    } catch (cause) {
      throw new MalformedBytes('a text is no UTF-8', { cause })
    }
  }

  bytes(length: number): Uint8Array {
    if (this.#at + length > this.#bytes.byteLength) throw new MalformedBytes('it ends too soon')
    this.#at += length
    return this.#bytes.subarray(this.#at - length, this.#at)
  }

  rest(): Uint8Array {
    return this.bytes(this.#bytes.byteLength - this.#at)
  }
}
