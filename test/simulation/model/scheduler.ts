interface Timer {
  readonly atMs: number
  readonly order: number
  readonly run: () => void
}

/** Virtual time: what is due first runs first, what is due together in the order it was asked for. */
export class Scheduler {
  nowMs = 0
  #order = 0
  readonly #heap: Timer[] = []

  after(delayMs: number, run: () => void): void {
    this.#push({ atMs: this.nowMs + Math.max(0, delayMs), order: this.#order++, run })
  }

  /** Runs everything that is due until `endMs`, calling `check` after each. */
  runUntil(endMs: number, check: () => void): void {
    for (;;) {
      const next = this.#heap[0]
      if (next === undefined || next.atMs > endMs) break
      this.#pop()
      this.nowMs = next.atMs
      next.run()
      check()
    }
    this.nowMs = endMs
  }

  #push(timer: Timer): void {
    const heap = this.#heap
    let place = heap.push(timer) - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      const above = heap[parent]
      if (above === undefined || isBefore(above, timer)) break
      heap[place] = above
      place = parent
    }
    heap[place] = timer
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let place = 0
    for (;;) {
      const child = this.#smallerChild(place)
      if (child === null || isBefore(last, child.timer)) break
      heap[place] = child.timer
      place = child.place
    }
    heap[place] = last
  }

  #smallerChild(place: number): { readonly place: number; readonly timer: Timer } | null {
    const left = this.#heap[2 * place + 1]
    const right = this.#heap[2 * place + 2]
    if (left === undefined) return null
    if (right === undefined || isBefore(left, right)) return { place: 2 * place + 1, timer: left }
    return { place: 2 * place + 2, timer: right }
  }
}

function isBefore(one: Timer, other: Timer): boolean {
  return one.atMs !== other.atMs ? one.atMs < other.atMs : one.order < other.order
}
