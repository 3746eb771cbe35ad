import type { Clock } from '../../shared/runtime/clock.ts'

/** Uses of one reading. A reading costs as much as all else that a leased check does. */
const USES_MAX = 32

/**
 * A monotonic clock that is read once for what one turn of the event loop does, and anew after USES_MAX uses.
 *
 * It lags by what the turn has done since, some microseconds; by more only where this process was kept from running in
 * the middle of it, which may happen as well between a reading of one's own and the answer.
 */
export class TurnClock {
  readonly #clock: Clock
  #nowMs = 0
  #usesLeft = 0
  #isEndDue = false
  readonly #endTurn = (): void => {
    this.#isEndDue = false
    this.#usesLeft = 0
  }

  constructor(clock: Clock) {
    this.#clock = clock
  }

  monotonicMs(): number {
    if (this.#usesLeft > 0) this.#usesLeft -= 1
    else this.#read()
    return this.#nowMs
  }

  #read(): void {
    this.#nowMs = this.#clock.monotonicMs()
    this.#usesLeft = USES_MAX
    if (this.#isEndDue) return
    this.#isEndDue = true
    setImmediate(this.#endTurn)
  }
}
