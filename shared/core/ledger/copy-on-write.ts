/**
 * A map that is copied when it is first changed, and never otherwise.
 *
 * Most steps change one or two of a ledger's maps, and one of those may hold ten thousand keys. Changing an entry
 * while iterating is safe: the iteration goes on over the entries that were there.
 */
export class CopyOnWrite<Key, Value> implements ReadonlyMap<Key, Value> {
  #map: ReadonlyMap<Key, Value>
  #own: Map<Key, Value> | null = null

  constructor(map: ReadonlyMap<Key, Value>) {
    this.#map = map
  }

  /** The map as it is by then: the given one itself if nothing was changed. */
  result(): ReadonlyMap<Key, Value> {
    return this.#map
  }

  set(key: Key, value: Value): void {
    this.#owned().set(key, value)
  }

  delete(key: Key): void {
    if (this.#map.has(key)) this.#owned().delete(key)
  }

  clear(): void {
    this.#own = new Map()
    this.#map = this.#own
  }

  get size(): number {
    return this.#map.size
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key)
  }

  has(key: Key): boolean {
    return this.#map.has(key)
  }

  keys(): MapIterator<Key> {
    return this.#map.keys()
  }

  values(): MapIterator<Value> {
    return this.#map.values()
  }

  entries(): MapIterator<[Key, Value]> {
    return this.#map.entries()
  }

  [Symbol.iterator](): MapIterator<[Key, Value]> {
    return this.#map.entries()
  }

  forEach(visit: (value: Value, key: Key, map: ReadonlyMap<Key, Value>) => void): void {
    this.#map.forEach(visit)
  }

  #owned(): Map<Key, Value> {
    this.#own ??= new Map(this.#map)
    this.#map = this.#own
    return this.#own
  }
}
