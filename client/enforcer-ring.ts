/**
 * How long an enforcer that said it ends, or did not answer, is asked last: about what a restart takes. Asking it again
 * too early costs an attempt that is refused, or a deadline; asking it while it closes could cost an answer.
 */
const LAST_MS = 2_000

export interface RingEntry {
  readonly url: URL
  /** By the monotonic clock, ms. */
  lastUntilMs: number
}

/**
 * The enforcers in the order in which a call tries them: each call begins with another one, and those that are ending
 * or did not answer come last.
 */
export class EnforcerRing {
  readonly #entries: readonly RingEntry[]
  #next = 0

  constructor(urls: readonly URL[]) {
    this.#entries = urls.map((url) => ({ url, lastUntilMs: 0 }))
  }

  /** Each of them once. */
  turn(): readonly RingEntry[] {
    const first = this.#next++ % this.#entries.length
    const turned = [...this.#entries.slice(first), ...this.#entries.slice(0, first)]
    const nowMs = performance.now()
    if (turned.every(({ lastUntilMs }) => lastUntilMs <= nowMs)) return turned
    return turned.sort((one, other) => rank(one, nowMs) - rank(other, nowMs))
  }

  /** Called when one closes the connection with its answer, which is how a server says that it ends, or gives none. */
  putLast(entry: RingEntry): void {
    entry.lastUntilMs = performance.now() + LAST_MS
  }
}

function rank({ lastUntilMs }: RingEntry, nowMs: number): number {
  return lastUntilMs > nowMs ? 1 : 0
}
