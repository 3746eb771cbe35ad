/** How long checks of a key are counted together. */
const WINDOW_MS = 200

/** Most keys that are watched at once. One that is not seen to be hot is only slower. */
const WATCHED_MAX = 4_096

/** Finds the keys that are asked for so often that a block of tokens saves requests. */
export class HotKeys {
  readonly #checksMin: number
  readonly #seen = new Map<string, number>()
  #untilMs = 0

  constructor(checksPerSecond: number) {
    this.#checksMin = Math.max(1, Math.ceil((checksPerSecond * WINDOW_MS) / 1_000))
  }

  /** Notes a check of `key`; whether it is hot by now. */
  see(key: string, nowMs: number): boolean {
    if (nowMs >= this.#untilMs) {
      this.#seen.clear()
      this.#untilMs = nowMs + WINDOW_MS
    }
    const seen = (this.#seen.get(key) ?? 0) + 1
    if (seen > 1 || this.#seen.size < WATCHED_MAX) this.#seen.set(key, seen)
    return seen >= this.#checksMin
  }
}
