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
import { asciiJson } from '../../shared/protocol/ascii-json.ts'
import {
  CHECK_BODY_BYTES_MAX,
  type CheckRequest,
  parseCheckRequest,
} from '../../shared/protocol/check-request.ts'
import { type AnswerForm, answerOverHttp } from './answer.ts'
import { CHECK_PATH, type CheckRouteOptions } from './check-route.ts'
import { AnswerWriter, DirectHead } from './direct-answer.ts'
import { nameAsk } from './named-ask.ts'
import { runCheckThen } from './run-check.ts'
import { WholeMessage } from './whole-message.ts'

/** Puts this way before `app`, on its server, which must make its requests as `WholeMessage`. */
export function answerDirectly(app: FastifyInstance, options: CheckRouteOptions): void {
  const server = app.server as Server
  const [framework] = server.listeners('request') as RequestListener[]
  if (framework === undefined) return
  const direct = directAnswer(server, framework, options)
  server.removeListener('request', framework)
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    if (isPlainCheck(req)) req.whenWhole((body) => direct(req, res, body))
    else framework(req, res)
  })
}

/** By all that decides how the framework would read it. */
function isPlainCheck(req: IncomingMessage): req is WholeMessage {
  const { method, url, headers } = req
  if (url !== CHECK_PATH || method !== 'POST') return false
  if (headers['content-type'] !== 'application/json') return false
  const length = Number(headers['content-length'])
  if (!(length > 0 && length <= CHECK_BODY_BYTES_MAX)) return false
  return headers['transfer-encoding'] === undefined && req instanceof WholeMessage
}

function directAnswer(server: Server, framework: RequestListener, options: CheckRouteOptions) {
  const { region, clock, isRunning } = options
  const answering = { regionJson: asciiJson(region), clock, isRunning }
  const form: AnswerForm = { denialStatus: 200, headers: options.headers }
  const parse = parserOf(options)
  const writer = new AnswerWriter(server, clock)
  return (req: WholeMessage, res: ServerResponse, body: Buffer): void => {
    const otherwise = (): void => {
      // Its caller is gone, and so is what its stream could still say.
      if (req.destroyed) return
      req.giveBack(body)
      framework(req, res)
    }
    try {
      const named = nameAsk(parse(req, body))
      runCheckThen(options, named.ask, {
        resolve(verdict) {
          const head = new DirectHead()
          const said = answerOverHttp(head, { verdict, named }, form, answering)
          writer.write({ req, res, head, body: said }, !isRunning())
        },
        reject: otherwise,
      })
    } catch {
      // It says what is wrong with the request, and counts it.
      otherwise()
    }
  }
}

/** Reads a check, and asks who sends it where that is to be asked: chosen once, so that not asking costs nothing. */
function parserOf({
  callers,
}: CheckRouteOptions): (req: IncomingMessage, body: Buffer) => CheckRequest {
  if (callers === undefined) return (_req, body) => parseCheckRequest(JSON.parse(body.toString()))
  return ({ headers: { authorization } }, body) => {
    callers.require(authorization)
    const request = parseCheckRequest(JSON.parse(body.toString()))
    callers.require(authorization, request.domain)
    return request
  }
}
