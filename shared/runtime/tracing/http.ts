/** A span for each request that a server answers, in the trace that its `traceparent` names. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Span, Tracer } from './tracer.ts'

export interface TracedRequests {
  readonly tracer: Tracer
  /** Health, metrics and the like are asked for all day and tell nothing. */
  readonly isTraced: (req: IncomingMessage) => boolean
  /** The span's name before a route is found, and for what is answered without the framework. */
  readonly nameOf: (req: IncomingMessage) => string
}

/**
 * Puts itself before whatever answers on the server of `app`, so that it must come last; `nameByRoute` must come
 * before the routes.
 */
export function traceRequests(app: FastifyInstance, options: TracedRequests): void {
  const server = app.server as Server
  const listeners = server.listeners('request') as RequestListener[]
  server.removeAllListeners('request')
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    const span = options.isTraced(req) ? beginRequest(options, req) : null
    const answer = (): void => {
      for (const listener of listeners) listener(req, res)
    }
    if (span === null) {
      answer()
      return
    }
    const { tracer } = options
    keepInside(tracer, span, req)
    let isAnswered = false
    res.once('finish', () => {
      isAnswered = true
    })
    res.once('close', () => {
      span.note({ 'http.response.status_code': res.statusCode })
      if (!isAnswered) span.end('the connection ended before the answer')
      else if (res.statusCode >= 500) span.end(`answered with ${res.statusCode}`)
      else span.end()
    })
    tracer.inside(span, answer)
  })
}

/** Calls a span by its route, never by its path, which callers choose. */
export function nameByRoute(app: FastifyInstance, tracer: Tracer): void {
  app.addHook('onRequest', (req, _reply, done) => {
    const route = req.routeOptions.url
    const span = tracer.current()
    if (span !== null && route !== undefined) {
      span.rename(`${req.method} ${route}`)
      span.note({ 'http.route': route })
    }
    done()
  })
}

function beginRequest({ tracer, nameOf }: TracedRequests, req: IncomingMessage): Span | null {
  const { headers, method = '' } = req
  return tracer.begin({
    name: nameOf(req),
    kind: 'server',
    notes: { 'http.request.method': method },
    from: (field) => {
      const value = headers[field]
      return Array.isArray(value) ? value.join(',') : value
    },
  })
}

/** A body arrives from the parser's context, which is not that of the listener. */
function keepInside(tracer: Tracer, span: Span, req: IncomingMessage): void {
  const emit = req.emit.bind(req)
  req.emit = (event: string | symbol, ...args: unknown[]): boolean =>
    tracer.inside(span, () => emit(event, ...args))
  const push = req.push.bind(req)
  req.push = (chunk: unknown, encoding?: BufferEncoding): boolean =>
    tracer.inside(span, () => push(chunk, encoding))
}
