/** Writes an answer straight to its connection, in one piece. */
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { ReplyHead } from './answer.ts'

const SECOND_MS = 1_000

/** Status and header fields of an answer, as they are said. The fields are printable ASCII, made by this program. */
export class DirectHead implements ReplyHead {
  status = 200
  /** Names and values in turn. */
  readonly fields: string[] = []

  header(name: string, value: string | number): this {
    this.fields.push(name, String(value))
    return this
  }

  code(status: number): this {
    this.status = status
    return this
  }
}

/** An answer, and where it goes. */
export interface DirectAnswer {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly head: DirectHead
  /** ASCII: its length is what the answer says that it is. */
  readonly body: string
}

/** Writes answers on the connections of `server`. */
export class AnswerWriter {
  readonly #server: Server
  readonly #clock: Clock
  #second = Number.NaN
  /** The fields that Node.js itself adds to an answer whose connection stays open. */
  #lasting = ''

  constructor(server: Server, clock: Clock) {
    this.#server = server
    this.#clock = clock
  }

  /**
   * Writes head and body at once, and tells the response that it is finished, which makes its connection ready for the
   * next request. What Node.js' own `writeHead` and `end` do beyond that is for answers of unknown length, in parts, or
   * from strangers, and costs a third of a check. Where the connection is to end, or an earlier answer is not out yet,
   * they have to.
   */
  write({ req, res, head, body }: DirectAnswer, isLast: boolean): void {
    const { socket } = res
    const { status, fields } = head
    if (socket === null || !socket.writable || isLast || !isLasting(req)) {
      fields.push('content-length', String(body.length))
      res.writeHead(status, fields).end(body)
      return
    }
    let text = status === 200 ? 'HTTP/1.1 200 OK\r\n' : statusLine(status)
    for (let index = 0; index < fields.length; index += 2) {
      text += `${fields[index]}: ${fields[index + 1]}\r\n`
    }
    socket.write(
      `${text}content-length: ${body.length}\r\n${this.#lastingFields()}${body}`,
      'latin1',
    )
    res.emit('finish')
  }

  #lastingFields(): string {
    const second = Math.floor(this.#clock.wallMs() / SECOND_MS)
    if (second === this.#second) return this.#lasting
    this.#second = second
    const date = new Date(second * SECOND_MS).toUTCString()
    const stayMs = this.#server.keepAliveTimeout
    const stay = stayMs > 0 ? `Keep-Alive: timeout=${Math.floor(stayMs / SECOND_MS)}\r\n` : ''
    this.#lasting = `Date: ${date}\r\nConnection: keep-alive\r\n${stay}\r\n`
    return this.#lasting
  }
}

/** Whether the connection stays open, by what its caller said; anything unusual is left to Node.js. */
function isLasting({ headers, httpVersionMajor, httpVersionMinor }: IncomingMessage): boolean {
  if (httpVersionMajor !== 1 || httpVersionMinor !== 1 || headers.expect !== undefined) return false
  return headers.connection === undefined || headers.connection === 'keep-alive'
}

function statusLine(status: number): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
}
