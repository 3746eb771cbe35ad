/** Readings that must agree before the clock of Redis counts as set back: a busy process is late for one or two. */
const READINGS = 8

/**
 * Notices when the clock of Redis jumps against this process's.
 *
 * A reading of the difference is never above the true one, and below it by as long as its reply waited. So a
 * rise beyond `toleranceMs` is a jump at once, and a fall only when it is found again and again.
 */
export class ClockWatch {
  readonly #toleranceMs: number
  #knownMs: number | null = null
  #highestMs = Number.NEGATIVE_INFINITY
  #readings = 0

  constructor(toleranceMs: number) {
    this.#toleranceMs = toleranceMs
  }

  /** By how much the clock was set forward or, negative, back; 0 while it was not. */
  watch(offsetMs: number): number {
    const knownMs = this.#knownMs ?? offsetMs
    this.#highestMs = Math.max(this.#highestMs, offsetMs)
    this.#readings++
    const isRaised = offsetMs > knownMs + this.#toleranceMs
    if (!isRaised && this.#readings < READINGS) {
      this.#knownMs = Math.max(knownMs, offsetMs)
      return 0
    }
    const movedMs = this.#highestMs - knownMs
    this.#knownMs = this.#highestMs
    this.#highestMs = Number.NEGATIVE_INFINITY
    this.#readings = 0
    return Math.abs(movedMs) > this.#toleranceMs ? movedMs : 0
  }
}
