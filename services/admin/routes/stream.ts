import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { domainSchema, nameSchema } from '../../../shared/protocol/policy.ts'
import { callerOf, recheckOf } from '../access/authenticate.ts'
import { StreamClient } from '../stream/stream-client.ts'
import { type AdminDeps, failures } from './route-support.ts'

const EVENT_ID_CHARS_MAX = 64

/** The live stream of server-sent events. */
export function streamRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/stream',
    {
      // The headers of a stream say nothing without it.
      exposeHeadRoute: false,
      schema: {
        tags: ['usage'],
        summary: 'Live events: regions, shares, usage, revisions and rollouts (text/event-stream)',
        description:
          "Begins with a snapshot, or with what was missed since Last-Event-ID where that is known. A client that takes events too slowly, or whose token is revoked, gets an end event that says so. One token may have some of an admin's streams; one more is answered with 429.",
        querystring: z.strictObject({
          domain: domainSchema.optional().describe('only limits of this domain'),
          policy: nameSchema.optional().describe('only limits of policies of this name'),
        }),
        headers: z.looseObject({
          'last-event-id': z
            .string()
            .max(EVENT_ID_CHARS_MAX)
            .optional()
            .describe('the id of the last event that came'),
        }),
        response: {
          200: {
            description: 'Events until either side ends it',
            content: { 'text/event-stream': { schema: z.string() } },
          },
          ...failures,
        },
      },
    },
    (req, reply) => {
      const { stream, wallMs } = deps
      const { actor, domains } = callerOf(req)
      stream.requireRoom(actor)
      reply.hijack()
      for (const [name, value] of Object.entries(reply.getHeaders())) {
        if (value !== undefined) reply.raw.setHeader(name, value)
      }
      reply.raw.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
        // An ended stream leaves no connection behind that the server would wait for.
        connection: 'close',
      })
      const client = new StreamClient({
        response: reply.raw,
        actor,
        filter: { domain: req.query.domain ?? null, policy: req.query.policy ?? null, domains },
        mayStay: recheckOf(req),
        nowMs: wallMs(),
      })
      // A connection that breaks is no failure; `close` follows and clears up.
      reply.raw.on('error', () => stream.leave(client))
      reply.raw.on('close', () => stream.leave(client))
      stream.open(client, req.headers['last-event-id'] ?? null)
    },
  )
  app.addHook('preClose', async () => deps.stream.close())
}
