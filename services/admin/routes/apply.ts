import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import { applyReplySchema, applySchema } from '../../../shared/protocol/apply.ts'
import { callerOf } from '../access/authenticate.ts'
import { applyDocuments } from '../apply.ts'
import { type AdminDeps, changeHeaders, contextOf, failures } from './route-support.ts'

/** Ten thousand policies of ordinary size. */
const APPLY_BYTES_MAX = 16 * 1024 * 1024

export function applyRoutes(root: FastifyInstance, deps: AdminDeps): void {
  root.withTypeProvider<ZodTypeProvider>().post(
    '/apply',
    {
      bodyLimit: APPLY_BYTES_MAX,
      schema: {
        tags: ['policies'],
        summary: 'Create, replace and prune many policies as one revision, all or none',
        headers: changeHeaders,
        body: applySchema,
        response: { 200: applyReplySchema, ...failures },
      },
    },
    async (req) => {
      const { domains } = callerOf(req)
      const change = { request: req.body, domains, nowMs: deps.wallMs() }
      const context = contextOf(req, req.headers)
      return await changePlane(deps.db, context, (plane) => applyDocuments(plane, change))
    },
  )
}
