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
    if (chunk === null) whole(body ?? NOTHING)
    else this.#body = body === null ? chunk : Buffer.concat([body, chunk])
    return true
  }
}

const NOTHING = Buffer.alloc(0)
