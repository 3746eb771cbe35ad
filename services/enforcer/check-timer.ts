import type { Clock } from '../../shared/runtime/clock.ts'
import type { Timings } from '../../shared/runtime/tracing/exemplars.ts'
import { TurnClock } from './turn-clock.ts'

/** One check in so many is timed. */
const TIMED_OF = 16

/**
 * Times some checks. Of those that begin or end in one turn of the event loop it reads the clock once: reading it for
 * each costs more than all else that is counted of a check.
 */
export class CheckTimer {
  readonly #durations: Timings
  readonly #clock: TurnClock
  #untimed = 0

  constructor(durations: Timings, clock: Clock) {
    this.#durations = durations
    this.#clock = new TurnClock(clock)
  }

  /** When a check began, for `end`; null for one that is not timed. */
  begin(): number | null {
    if (this.#untimed > 0) {
      this.#untimed -= 1
      return null
    }
    this.#untimed = TIMED_OF - 1
    return this.#clock.monotonicMs()
  }

  end(beganMs: number): void {
    this.#durations.observe((this.#clock.monotonicMs() - beganMs) / 1_000)
  }
}
