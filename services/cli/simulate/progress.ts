import type { Sink } from '../io.ts'
import { grouped } from '../table.ts'
import type { ReadProgress } from './lines.ts'

const WIDTH = 30

/** A check takes microseconds, and looking at a clock for each would take as long. */
const STEPS_PER_LOOK = 4_096
const DRAW_EVERY_MS = 200

/** A bar on a terminal; nothing elsewhere. */
export class Progress {
  readonly #sink: Sink
  readonly #read: ReadProgress
  #steps = 0
  #drawnMs = Number.NEGATIVE_INFINITY

  constructor(sink: Sink, read: ReadProgress) {
    this.#sink = sink
    this.#read = read
  }

  step(): void {
    this.#steps++
    if (!this.#sink.isTerminal || this.#steps % STEPS_PER_LOOK !== 0) return
    const nowMs = performance.now()
    if (nowMs - this.#drawnMs < DRAW_EVERY_MS) return
    this.#drawnMs = nowMs
    const part = Math.min(1, this.#read.part)
    const full = Math.round(WIDTH * part)
    const bar = `${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}`
    this.#sink.write(
      `\r[${bar}] ${Math.floor(100 * part)} % ${grouped(this.#steps)} checks\u001b[K`,
    )
  }

  end(): void {
    if (this.#sink.isTerminal && this.#drawnMs > 0) this.#sink.write('\r\u001b[K')
  }
}
