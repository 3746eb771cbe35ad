/** How a service listens for HTTP: what a connection may do before there is a request, and what it is told otherwise. */
import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { InputProblem } from '../errors.ts'
import { titleOf } from './problem.ts'
import { type ListenTls, serverTls } from './tls.ts'

/** How often Node.js looks for requests that take too long; its own default of 30 s would make that the time-out. */
const ARRIVAL_CHECK_MS = 1_000

export interface ListenerOptions {
  /** Null: without TLS. */
  readonly tls: ListenTls | null
  /** How long a request may take to arrive, its body included, from its connection or its first byte on. */
  readonly arrivalMs: number
  /** What requests are made as; Node.js' own without. */
  readonly IncomingMessage?: typeof IncomingMessage
}

/**
 * The part of Fastify's options that concerns connections.
 *
 * Both times are given to Node.js, although they are the same: of one that is set alone it takes the larger one, its
 * default of a minute, for bodies.
 */
export function listenerOptions({ tls, arrivalMs, ...rest }: ListenerOptions) {
  const http = {
    connectionsCheckingInterval: ARRIVAL_CHECK_MS,
    headersTimeout: arrivalMs,
    requestTimeout: arrivalMs,
    ...rest,
  }
  const common = { requestTimeout: arrivalMs, clientErrorHandler: refuseUnreadable }
  return tls === null ? { ...common, http } : { ...common, https: { ...http, ...serverTls(tls) } }
}

/** Connections that wait for their last answer. */
const ending = new WeakSet<Socket>()

/**
 * Says why a request cannot be read, and ends its connection, since nobody knows where the next one begins.
 *
 * Answers that are still due on it go first: one that was said in their place would be taken for theirs.
 */
export function refuseUnreadable(err: NodeJS.ErrnoException, socket: Socket): void {
  if (err.code === 'ECONNRESET' || socket.destroyed || ending.has(socket)) return
  const due = answerDue(socket)
  if (due !== null) {
    ending.add(socket)
    socket.pause()
    due.once('close', () => {
      ending.delete(socket)
      refuseUnreadable(err, socket)
    })
    return
  }
  if (socket.writable && answerOf(socket)?.headersSent !== true) socket.write(refusalOf(err))
  socket.destroy(err)
}

/** The answer to a request that has arrived whole; what is still arriving never will. */
function answerDue(socket: Socket): ServerResponse | null {
  const answer = answerOf(socket)
  return answer?.req.complete === true && !answer.destroyed ? answer : null
}

/** Node.js keeps the answer that a connection is to send next there, and nowhere else. */
function answerOf(socket: Socket): ServerResponse | null {
  const answer: unknown = Reflect.get(socket, '_httpMessage')
  return answer instanceof ServerResponse ? answer : null
}

const UNREADABLE: InputProblem = {
  field: 'request',
  message: 'is not valid HTTP/1.1',
  fix: 'end lines with CRLF, and give the length of the body once: by content-length or by transfer-encoding: chunked',
}

/** By the codes of Node.js. */
const REFUSALS: Readonly<Record<string, readonly [number, InputProblem]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: [
    408,
    { field: 'request', message: 'did not arrive in time', fix: 'send it whole at once' },
  ],
  HPE_HEADER_OVERFLOW: [
    431,
    { field: 'headers', message: 'are too large', fix: 'send at most 16 KiB, the URL included' },
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    413,
    { field: 'body', message: 'has chunk extensions that are too large', fix: 'send none' },
  ],
}

function refusalOf({ code = '' }: NodeJS.ErrnoException): string {
  const [status, problem] = REFUSALS[code] ?? [400, UNREADABLE]
  const body = JSON.stringify({
    type: 'about:blank',
    title: titleOf(status),
    status,
    detail: `${problem.field} ${problem.message}`,
    code: 'QUOTA_INVALID_INPUT',
    errors: [problem],
  })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/problem+json; charset=utf-8',
    `content-length: ${body.length}`,
    'connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}
