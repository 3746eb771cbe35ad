import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type MiddlewareOptions, rule } from './middleware.ts'

export type QuotaFastifyOptions = MiddlewareOptions<FastifyRequest>

/** Asks before each request's handler runs, and answers a denied one with 429 and a problem document. */
const register: FastifyPluginAsync<QuotaFastifyOptions> = (app, options) => {
  app.addHook('preHandler', async (req: FastifyRequest, reply: FastifyReply) => {
    const gone = new AbortController()
    const abort = (): void => gone.abort(new Error('the caller went away'))
    reply.raw.once('close', abort)
    try {
      const ruling = await rule(req, options, gone.signal)
      if (ruling.kind === 'unchecked') return
      if (ruling.kind === 'allowed') {
        reply.headers(ruling.answer.headers)
        return
      }
      // Returning the reply ends the hooks; the handler is not called.
      return reply
        .code(429)
        .headers(ruling.denial.headers)
        .send(JSON.stringify(ruling.denial.problem))
    } finally {
      reply.raw.off('close', abort)
    }
  })
  return Promise.resolve()
}

/**
 * `await app.register(quotaFastify, { client, domain: 'api', descriptor: (req) => ({ tenant: req.tenant }) })`
 *
 * Limits every route of the instance that it is registered on, and of those below it; register it inside a plugin of
 * your own to limit only that plugin's routes.
 */
export const quotaFastify = fastifyPlugin(register, { fastify: '5.x', name: 'quotaplane' })
