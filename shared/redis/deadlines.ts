/**
 * Ends what takes longer than a fixed time; one timer for all, because a timer per call costs more than the call.
 *
 * An item that is overdue gets one more turn of the event loop: when this process itself was busy, its reply may
 * be waiting in the socket, and a late reader must not be taken for a slow server.
 */
export class Deadlines<Item> {
  readonly #afterMs: number
  readonly #expire: (item: Item) => void
  /** In order of their deadlines, since all have the same time. */
  readonly #due = new Map<Item, number>()
  #timer: NodeJS.Timeout | null = null

  constructor(afterMs: number, expire: (item: Item) => void) {
    this.#afterMs = afterMs
    this.#expire = expire
  }

  start(item: Item): void {
    this.#due.set(item, performance.now() + this.#afterMs)
    this.#timer ??= setTimeout(() => this.#look(), this.#afterMs)
  }

  /** True when the item was still in time. */
  end(item: Item): boolean {
    return this.#due.delete(item)
  }

  #look(): void {
    const now = performance.now()
    const overdue: Item[] = []
    let nextMs: number | null = null
    for (const [item, atMs] of this.#due) {
      if (atMs > now) {
        nextMs = atMs - now
        break
      }
      overdue.push(item)
    }
    if (overdue.length > 0) setImmediate(() => this.#end(overdue))
    // An overdue item is looked at again only by its own turn, above.
    this.#timer = nextMs === null ? null : setTimeout(() => this.#look(), Math.ceil(nextMs))
  }

  #end(overdue: readonly Item[]): void {
    for (const item of overdue) {
      if (this.end(item)) this.#expire(item)
    }
  }
}
