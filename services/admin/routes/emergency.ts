import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { listActions } from '../../../shared/postgres/emergency.ts'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import {
  emergencyBegunSchema,
  emergencyListSchema,
  emergencyPutSchema,
} from '../../../shared/protocol/emergency.ts'
import { domainSchema } from '../../../shared/protocol/policy-fields.ts'
import { beginAction, endAction, requireAction } from '../emergency-changes.ts'
import { emergencyReplyOf } from '../views/emergency.ts'
import { decimal } from './decimal.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, pageOf, pageQuery } from './paging.ts'
import { type AdminDeps, conditionalHeaders, contextOf, failures, tagged } from './route-support.ts'

const PATH = '/emergency-actions'
const tags = ['emergency']
const params = mendedBy(z.object({ id: decimal(1) }), {
  id: 'give the number of an action in decimal digits, as GET /v1/emergency-actions lists them',
})
const cursorSchema = z.tuple([z.number().int()])

/** What an operator does in an emergency, in one call each. Everything ends by itself; resets and drains are elsewhere. */
export function emergencyRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'List the emergency actions in force, with the time that each has left',
        querystring: z.strictObject({ ...pageQuery, domain: domainSchema.optional() }),
        response: { 200: emergencyListSchema, ...failures },
      },
    },
    async (req) => {
      const { cursor, domain, limit } = req.query
      const [afterId] = decodeCursor(cursorSchema, cursor) ?? [0]
      const atMs = deps.wallMs()
      const found = await listActions(deps.db, { domain, afterId, atMs, limit: limit + 1 })
      const { items, next } = pageOf(found, limit, ({ id }) => [id])
      return { items: items.map((action) => emergencyReplyOf(action, action, atMs)), next }
    },
  )
  beginRoute(root, deps)
  endRoute(root, deps)
}

function beginRoute(root: FastifyInstance, deps: AdminDeps): void {
  root.withTypeProvider<ZodTypeProvider>().post(
    PATH,
    {
      schema: {
        tags,
        summary:
          'Block or allow a tenant, multiply or fix a limit, freeze loans or pin a split, for a time',
        headers: conditionalHeaders,
        body: emergencyPutSchema,
        response: { 201: emergencyBegunSchema, ...failures },
      },
    },
    async (req, reply) => {
      const context = { ...contextOf(req, req.headers), reason: req.body.reason }
      const nowMs = deps.wallMs()
      const { policy, action } = await changePlane(deps.db, context, (plane) =>
        beginAction(plane, req.body, nowMs),
      )
      tagged(reply, policy.revision)
      reply.code(201)
      return { ...emergencyReplyOf(action, policy, nowMs), revision: policy.revision }
    },
  )
}

function endRoute(root: FastifyInstance, deps: AdminDeps): void {
  root.withTypeProvider<ZodTypeProvider>().delete(
    `${PATH}/:id`,
    {
      schema: {
        tags,
        summary: 'End an emergency action before its time',
        params,
        querystring: z.strictObject({
          domain: domainSchema
            .optional()
            .describe('domain of the action; callers that are limited to domains must name it'),
        }),
        headers: conditionalHeaders,
        response: { 204: z.undefined().describe('Ended'), ...failures },
      },
    },
    async (req, reply) => {
      const nowMs = deps.wallMs()
      await changePlane(deps.db, contextOf(req, req.headers), async (plane) => {
        const action = await requireAction(plane, req.params.id, req.query.domain)
        await endAction(plane, action, { action: 'emergency.end', nowMs })
      })
      reply.code(204)
      return undefined
    },
  )
}
