import { setImmediate as turn } from 'node:timers/promises'

/** What is done between the parts of long work; the event loop alone by default. */
export type Pause = () => Promise<void>

/** How long one part may take: what waits for a turn meanwhile, such as a renewal or a reply, comes this much later. */
const PART_MS = 10

/**
 * Long work in parts. Whoever does it breathes after each item, and a pause is made once a part has taken its time: by
 * the clock and not by a number of items, because on a busy machine a few may take as long as many.
 */
export class Stretch {
  readonly #pause: Pause
  #begunMs = performance.now()

  constructor(pause: Pause = async () => await turn()) {
    this.#pause = pause
  }

  async breathe(): Promise<void> {
    if (performance.now() - this.#begunMs < PART_MS) return
    await this.#pause()
    this.#begunMs = performance.now()
  }

  /** Pauses whatever time has passed, as before and after a call that takes long by itself. */
  async rest(): Promise<void> {
    await this.#pause()
    this.#begunMs = performance.now()
  }
}
