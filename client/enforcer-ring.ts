/**
 * How long an enforcer that said it ends is asked last: about what a restart takes. Asking it again too early costs an
 * attempt that is refused; asking it while it closes could cost an answer.
 */
const LEAVING_MS = 2_000

export interface RingEntry {
  readonly url: URL
  /** By the monotonic clock, ms. */
  leavingUntilMs: number
}

/**
 * The enforcers in the order in which a call tries them: each call begins with another one, and those that are ending
 * come last.
 */
export class EnforcerRing {
  readonly #entries: readonly RingEntry[]
  #next = 0

  constructor(urls: readonly URL[]) {
    this.#entries = urls.map((url) => ({ url, leavingUntilMs: 0 }))
  }

  /** Each of them once. */
  turn(): readonly RingEntry[] {
    const first = this.#next++ % this.#entries.length
    const turned = [...this.#entries.slice(first), ...this.#entries.slice(0, first)]
    const nowMs = performance.now()
    if (turned.every(({ leavingUntilMs }) => leavingUntilMs <= nowMs)) return turned
    return turned.sort((one, other) => rank(one, nowMs) - rank(other, nowMs))
  }

  /** Called when one closes the connection with its answer, which is how a server says that it ends. */
  noteLeaving(entry: RingEntry): void {
    entry.leavingUntilMs = performance.now() + LEAVING_MS
  }
}

function rank({ leavingUntilMs }: RingEntry, nowMs: number): number {
  return leavingUntilMs > nowMs ? 1 : 0
}
