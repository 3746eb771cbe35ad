import { windowAt } from '../../../../shared/core/stock/stock-limit.ts'
import type { JudgedNumbers } from './reference.ts'

/** Names windows by their beginning; remembers the one of a calendar that was asked for last, since each costs time. */
export class WindowLabels {
  #fromUs = 0
  #toUs = 0

  startMs(numbers: Pick<JudgedNumbers, 'windowMs' | 'calendar'>, labelUs: number): number {
    const { windowMs, calendar } = numbers
    if (calendar == null) return Math.floor(labelUs / (windowMs * 1_000)) * windowMs
    if (labelUs < this.#fromUs || labelUs >= this.#toUs) {
      const { startMs, endMs } = windowAt(numbers, labelUs / 1_000)
      this.#fromUs = startMs * 1_000
      this.#toUs = endMs * 1_000
    }
    return this.#fromUs / 1_000
  }
}
