import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isQuotaError } from '../../shared/errors.ts'
import { CALLER_SCOPE, type CallerBook } from './caller-book.ts'

export interface CallerOptions {
  /** Not given: callers are not asked who they are. */
  readonly callers?: Pick<CallerBook, 'require'> | undefined
}

/**
 * What anybody may ask: probes, scrapers, the description, and `/v1/debug/decisions`, which has a token of its own. All
 * else needs a caller, so that no route can forget to say.
 */
const OPEN_PATHS: ReadonlySet<string> = new Set([
  '/livez',
  '/readyz',
  '/healthz',
  '/healthcheck',
  '/metrics',
  '/openapi.json',
  '/v1/debug/decisions',
])

/** Lets only requests with a token pass to the routes of `app`, before their body is read. Before routes are added. */
export function useCallers(app: FastifyInstance, options: CallerOptions): void {
  if (options.callers === undefined) return
  app.addHook('onRequest', (req, reply, done) => {
    const { url } = req.routeOptions
    if (url !== undefined && !OPEN_PATHS.has(url)) requireCaller(options, req, reply)
    done()
  })
}

/** Throws what `CallerBook.require` does, and adds the header field that tells callers how to do better. */
export function requireCaller(
  { callers }: CallerOptions,
  req: FastifyRequest,
  reply: FastifyReply,
  domain?: string,
): void {
  if (callers === undefined) return
  try {
    callers.require(req.headers.authorization, domain)
  } catch (err) {
    const challenge = challengeOf(err, req.headers.authorization !== undefined)
    if (challenge !== null) reply.header('www-authenticate', challenge)
    throw err
  }
}

function challengeOf(err: unknown, isGiven: boolean): string | null {
  if (isQuotaError(err, 'QUOTA_UNAUTHENTICATED')) {
    return isGiven ? 'Bearer error="invalid_token"' : 'Bearer'
  }
  const scope = `Bearer error="insufficient_scope", scope="${CALLER_SCOPE}"`
  return isQuotaError(err, 'QUOTA_FORBIDDEN') ? scope : null
}
