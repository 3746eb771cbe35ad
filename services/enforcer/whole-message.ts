import { IncomingMessage } from 'node:http'

/**
 * A request whose body can be had whole, without a stream between.
 *
 * Node.js hands the parts of a body to `push`. For a body of a hundred bytes the stream behind it (buffers, listeners,
 * two turns of the tick queue) costs as much as all that a check does. Whoever does not ask for the body whole has
 * an ordinary stream.
 */
export class WholeMessage extends IncomingMessage {
  #whole: ((body: Buffer) => void) | null = null
  #body: Buffer | null = null
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

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const whole = this.#whole
    if (whole === null) return super.push(chunk, encoding)
    const body = this.#body
    if (chunk !== null) this.#body = body === null ? chunk : Buffer.concat([body, chunk])
    else {
      this.#isTaken = true
      this.#whole = null
      this.#body = null
      whole(body ?? NOTHING)
    }
    return true
  }
}

const NOTHING = Buffer.alloc(0)
