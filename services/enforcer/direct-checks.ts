/**
 * Answers plain `POST /v1/check` requests on the HTTP server itself, before the framework sees them.
 *
 * What the framework does for any request (a logger, hooks, a parser found by content type, promises) costs more than
 * a check does. So a request of exactly the usual form is read, decided and answered here, by the same functions and
 * with the same answer as the route in `check-route.ts`; a query string, another content type, a body of unknown length
 * and everything that is no answer (not valid, no policies, overloaded) are the framework's, which has the whole request
 * from here as it came. Nothing has been spent by then.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { CHECK_BODY_BYTES_MAX, parseCheckRequest } from '../../shared/protocol/check-request.ts'
import { type AnswerForm, answerOverHttp, type ReplyHead } from './answer.ts'
import { CHECK_PATH, type CheckRouteOptions } from './check-route.ts'
import { nameAsk } from './named-ask.ts'
import { runCheckThen } from './run-check.ts'

/** Puts this way before `app`, on its server. */
export function answerDirectly(app: FastifyInstance, options: CheckRouteOptions): void {
  const server = app.server as Server
  const [framework] = server.listeners('request') as RequestListener[]
  if (framework === undefined) return
  const direct = directAnswer(app, options)
  server.removeListener('request', framework)
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    if (!isPlainCheck(req)) {
      framework(req, res)
      return
    }
    let body: Buffer | null = null
    req.on('data', (chunk: Buffer) => {
      body = body === null ? chunk : Buffer.concat([body, chunk])
    })
    req.on('end', () => direct(req, res, body ?? Buffer.alloc(0)))
  })
}

/** By all that decides how the framework would read it. */
function isPlainCheck({ method, url, headers }: IncomingMessage): boolean {
  if (url !== CHECK_PATH || method !== 'POST') return false
  if (headers['content-type'] !== 'application/json') return false
  const length = Number(headers['content-length'])
  return length > 0 && length <= CHECK_BODY_BYTES_MAX && headers['transfer-encoding'] === undefined
}

function directAnswer(app: FastifyInstance, options: CheckRouteOptions) {
  const { region, clock, isRunning } = options
  const answering = { regionJson: JSON.stringify(region), clock, isRunning }
  const form: AnswerForm = { denialStatus: 200, headers: options.headers }
  return (req: IncomingMessage, res: ServerResponse, body: Buffer): void => {
    const otherwise = (): void => answerByFramework(app, req, res, body)
    try {
      const named = nameAsk(parseCheckRequest(JSON.parse(body.toString())))
      runCheckThen(options, named.ask, {
        resolve(verdict) {
          const head = new DirectHead()
          send(res, head, answerOverHttp(head, { verdict, named }, form, answering))
        },
        reject: otherwise,
      })
    } catch {
      // It says what is wrong with the request, and counts it.
      otherwise()
    }
  }
}

class DirectHead implements ReplyHead {
  status = 200
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

function send(res: ServerResponse, { status, fields }: DirectHead, body: string): void {
  fields.push('content-length', String(Buffer.byteLength(body)))
  res.writeHead(status, fields)
  res.end(body)
}

/** Fields that belong to the connection and not to the answer. */
const HOP_FIELDS = new Set(['connection', 'keep-alive', 'date', 'transfer-encoding'])

function answerByFramework(
  app: FastifyInstance,
  { headers }: IncomingMessage,
  res: ServerResponse,
  body: Buffer,
): void {
  const request = { method: 'POST', url: CHECK_PATH, headers, payload: body } as const
  app.inject(request).then(
    (answer) => {
      const fields = Object.entries(answer.headers).filter(([name]) => !HOP_FIELDS.has(name))
      res.writeHead(answer.statusCode, Object.fromEntries(fields))
      res.end(answer.rawPayload)
    },
    (err: unknown) => res.destroy(err instanceof Error ? err : undefined),
  )
}
