import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { listAudit, OBJECT_KINDS } from '../../../shared/postgres/audit.ts'
import { auditListSchema } from '../../../shared/protocol/admin-replies.ts'
import { type AdminDeps, decodeCursor, encodeCursor, failures, pageQuery } from './route-support.ts'

const auditCursor = z.tuple([z.number().int().min(1)])

export function auditRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/audit',
    {
      schema: {
        tags: ['audit'],
        summary: 'Who changed what, newest first; append-only',
        querystring: z.strictObject({
          ...pageQuery,
          objectKind: z.enum(OBJECT_KINDS).optional(),
          objectId: z.string().max(200).optional().describe('a region, or domain/name of a policy'),
        }),
        response: { 200: auditListSchema, ...failures },
      },
    },
    async (req) => {
      const { cursor, limit, objectKind, objectId } = req.query
      const [beforeSeq] = decodeCursor(auditCursor, cursor) ?? [null]
      const found = await listAudit(deps.db, { beforeSeq, limit: limit + 1, objectKind, objectId })
      const items = found.slice(0, limit)
      const last = found.length > limit ? items.at(-1) : undefined
      return {
        items: items.map((entry) => ({ ...entry, at: entry.at.toISOString() })),
        next: last === undefined ? null : encodeCursor([last.seq]),
      }
    },
  )
}
