import { IncomingMessage } from 'node:http'

const NONE: Buffer[] = []

/**
 * A request whose body can be had whole, without a stream between.
 *
 * Node.js hands the parts of a body to `push`. For a body of a hundred bytes the stream behind it (buffers, listeners,
 * two turns of the tick queue) costs as much as all that a check does. Whoever does not ask for the body whole has
 * an ordinary stream.
 */
export class WholeMessage extends IncomingMessage {
  #whole: ((body: Buffer) => void) | null = null
  /** Parts as they came: joining them one by one would cost their square. */
  #parts: Buffer[] = NONE
  #isTaken = false

  static {
    // Node.js keeps the last request of each connection until it has ended, and looks here for that. Kept ones would be
    // copied by each collection of garbage, which made the pauses for it twice as long.
    Object.defineProperty(WholeMessage.prototype, 'readableEnded', {
      get(this: WholeMessage): boolean {
        return this.#isTaken || Reflect.get(IncomingMessage.prototype, 'readableEnded', this)
      },
    })
  }

  /**
   * Hands the body to `whole` once all of it has arrived, and never when the caller goes before. To be called while the
   * server hands the request out, before anything of the body is there. The caller bounds its length.
   */
  whenWhole(whole: (body: Buffer) => void): void {
    this.#whole = whole
    // Says that the body is being read, so that the server does not discard it.
    this.read(0)
  }

  /** Gives the body back, as if nobody had asked for it: from here on it is an ordinary stream with `body` in it. */
  giveBack(body: Buffer): void {
    this.#isTaken = false
    super.push(body)
    super.push(null)
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const whole = this.#whole
    if (whole === null) return super.push(chunk, encoding)
    const parts = this.#parts
    if (chunk !== null) {
      if (parts.length === 0) this.#parts = [chunk]
      else parts.push(chunk)
      return true
    }
    this.#isTaken = true
    this.#whole = null
    this.#parts = NONE
    const [only] = parts
    whole(parts.length === 1 && only !== undefined ? only : Buffer.concat(parts))
    return true
  }
}
