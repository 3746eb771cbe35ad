import type { Socket } from 'node:net'

/** Bytes on the way beyond which the source is paused, so that a slow reader cannot fill our memory. */
const IN_FLIGHT_BYTES_MAX = 8 * 1024 * 1024

/** Carries bytes from one socket to another in order, each no sooner than its delay after it arrived. */
export class DelayLine {
  readonly #source: Socket
  readonly #sink: Socket
  readonly #queue: { readonly dueMs: number; readonly chunk: Buffer }[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(source: Socket, sink: Socket) {
    this.#source = source
    this.#sink = sink
    source.once('close', () => clearTimeout(this.#timer))
  }

  push(chunk: Buffer, delayMs: number): void {
    this.#queue.push({ dueMs: performance.now() + delayMs, chunk })
    this.#bytes += chunk.length
    if (this.#bytes > IN_FLIGHT_BYTES_MAX) this.#source.pause()
    if (this.#timer === undefined) this.#release()
  }

  #release(): void {
    this.#timer = undefined
    for (let next = this.#queue[0]; next !== undefined; next = this.#queue[0]) {
      const waitMs = next.dueMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#release(), Math.ceil(waitMs))
        return
      }
      this.#queue.shift()
      this.#bytes -= next.chunk.length
      if (!this.#sink.destroyed) this.#sink.write(next.chunk)
    }
    this.#source.resume()
  }
}
