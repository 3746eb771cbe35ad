import type { IncomingMessage, ServerResponse } from 'node:http'
import { type MiddlewareOptions, rule } from './middleware.ts'

/** Express' own types, as far as they are used; so Express 4, Express 5 and Connect all fit. */
export type NextFunction = (err?: unknown) => void

export type QuotaExpressOptions<Request extends IncomingMessage> = MiddlewareOptions<Request>

/**
 * `app.use(quotaExpress({ client, domain: 'api', descriptor: (req) => ({ tenant: req.user.tenant }) }))`
 *
 * A denied request is answered with 429 and a problem document, and `next` is not called.
 */
export function quotaExpress<Request extends IncomingMessage>(
  options: QuotaExpressOptions<Request>,
): (req: Request, res: ServerResponse, next: NextFunction) => void {
  return (req, res, next) => {
    const gone = new AbortController()
    const abort = (): void => gone.abort(new Error('the caller went away'))
    res.once('close', abort)
    rule(req, options, gone.signal)
      .finally(() => res.off('close', abort))
      .then((ruling) => {
        if (ruling.kind === 'denied') {
          res.writeHead(429, ruling.denial.headers).end(JSON.stringify(ruling.denial.problem))
          return
        }
        if (ruling.kind === 'allowed') {
          for (const [name, value] of Object.entries(ruling.answer.headers))
            res.setHeader(name, value)
        }
        next()
      })
      .catch((err: unknown) => {
        // Nobody is there to answer.
        if (gone.signal.aborted) return
        next(err)
      })
  }
}
