/** A key as a batch has it. */
export interface HashedKey {
  readonly keyText: string
  /** `hashOf` its text. */
  readonly hash: number
}

const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

/** A number of 31 bits that stands for `text`. Two texts may have the same. */
export function hashOf(text: string): number {
  let hash = FNV_OFFSET
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), FNV_PRIME)
  }
  return (hash ^ (hash >>> 15)) & 0x7fffffff
}

/**
 * The keys of one batch, each once, and where each of them is.
 *
 * A Map of the texts does the same, but costs more than all else that is done to a check on its way to Redis: it is made
 * anew for each batch and grows several times until it holds them all. This one is cleared and used again.
 */
export class KeyPlaces {
  readonly #keys: HashedKey[] = []
  /** By a part of the hash: the place of the key, from 1; 0 where there is none. At most a quarter is ever taken. */
  readonly #slots: Uint16Array
  readonly #mask: number

  /** For at most `keysMax` keys, which is a power of two. */
  constructor(keysMax: number) {
    this.#slots = new Uint16Array(4 * keysMax)
    this.#mask = this.#slots.length - 1
  }

  get size(): number {
    return this.#keys.length
  }

  clear(): void {
    this.#keys.length = 0
    this.#slots.fill(0)
  }

  /** The place of `key`, from 1. One that was not there yet comes last: its place is then `size`. */
  placeOf(key: HashedKey): number {
    const keys = this.#keys
    let slot = key.hash & this.#mask
    for (;;) {
      const place = this.#slots[slot] ?? 0
      if (place === 0) break
      const known = keys[place - 1]
      if (known === key || isSame(known, key)) return place
      slot = (slot + 1) & this.#mask
    }
    const place = keys.push(key)
    this.#slots[slot] = place
    return place
  }
}

function isSame(known: HashedKey | undefined, key: HashedKey): boolean {
  return known !== undefined && known.hash === key.hash && known.keyText === key.keyText
}
