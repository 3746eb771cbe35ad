import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import {
  type AuditEntry,
  type AuditFilter,
  listAudit,
  listAuditAfter,
  OBJECT_KINDS,
} from '../../../shared/postgres/audit.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import { type AuditEntryReply, auditListSchema } from '../../../shared/protocol/admin-replies.ts'
import { domainSchema } from '../../../shared/protocol/policy.ts'
import { quoted } from '../../../shared/protocol/policy-fields.ts'
import { decimal } from './decimal.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, pageOf, pageQuery } from './paging.ts'
import { type AdminDeps, failures, NO_TIME } from './route-support.ts'

/** Entries read at once for an export; a policy's two documents may be some ten kilobytes each. */
const EXPORT_ROWS = 200

const auditCursor = z.tuple([z.number().int().min(1)])

const filter = {
  actor: z.string().max(300).optional().describe('who changed it, as the log names them'),
  objectKind: z.enum(OBJECT_KINDS).optional(),
  objectId: z.string().max(2_000).optional().describe('a region, or domain/name of a policy'),
  domain: domainSchema.optional().describe('only changes of policies of this domain'),
  since: z.iso
    .datetime({ offset: true, error: NO_TIME })
    .optional()
    .describe('only changes from then on'),
  until: z.iso
    .datetime({ offset: true, error: NO_TIME })
    .optional()
    .describe('only changes before then'),
}

const AUDIT_FIXES = {
  actor: 'give one actor as the log names it, such as token:ci, or leave it out',
  objectKind: `use ${quoted(OBJECT_KINDS)}, or leave it out`,
  objectId: 'give one id as the log has it, such as api/per-tenant, or leave it out',
  after: 'give the seq of the last entry that came, in decimal digits, or leave it out',
}

/** The append-only log of changes, in pages and as JSON lines. */
export function auditRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/audit',
    {
      schema: {
        tags: ['audit'],
        summary: 'Who changed what, newest first; append-only',
        querystring: mendedBy(z.strictObject({ ...pageQuery, ...filter }), AUDIT_FIXES),
        response: { 200: auditListSchema, ...failures },
      },
    },
    async (req) => {
      const { cursor, limit } = req.query
      const [beforeSeq] = decodeCursor(auditCursor, cursor) ?? [null]
      const query = { ...filterOf(req.query), beforeSeq, limit: limit + 1 }
      const found = await listAudit(deps.db, query)
      const { items, next } = pageOf(found, limit, ({ seq }) => [seq])
      return { items: items.map(replyOf), next }
    },
  )
  exportRoute(root, deps)
}

function exportRoute(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/audit/export',
    {
      schema: {
        tags: ['audit'],
        summary: 'The log of changes as JSON lines, oldest first',
        description:
          'A connection that breaks before the end leaves the export incomplete: go on with ?after= the last seq that came.',
        querystring: mendedBy(
          z.strictObject({
            ...filter,
            after: decimal(0)
              .default(0)
              .describe('only entries after this seq: to go on where an export ended'),
          }),
          AUDIT_FIXES,
        ),
        response: {
          200: {
            description: 'One entry a line, as in /v1/audit',
            content: { 'application/x-ndjson': { schema: z.any() } },
          },
          ...failures,
        },
      },
    },
    async (req, reply) => {
      const query = { ...filterOf(req.query), limit: EXPORT_ROWS }
      // Read before the answer begins, so that what is wrong can still be said.
      const first = await listAuditAfter(deps.db, { ...query, afterSeq: req.query.after })
      const lines = linesFrom(deps.db, query, first)
      return reply.type('application/x-ndjson').send(Readable.from(lines))
    },
  )
}

/** Each page is read when the client has taken the one before; no transaction waits for it. */
async function* linesFrom(
  db: Db,
  query: AuditFilter & { readonly limit: number },
  first: readonly AuditEntry[],
): AsyncGenerator<string> {
  for (let page = first; ; ) {
    const last = page.at(-1)
    if (last === undefined) return
    yield page.map((entry) => `${JSON.stringify(replyOf(entry))}\n`).join('')
    if (page.length < query.limit) return
    page = await listAuditAfter(db, { ...query, afterSeq: last.seq })
  }
}

function filterOf({
  since,
  until,
  ...rest
}: Omit<AuditFilter, 'since' | 'until'> & {
  since?: string | undefined
  until?: string | undefined
}) {
  const { actor, objectKind, objectId, domain } = rest
  return {
    actor,
    objectKind,
    objectId,
    domain,
    ...(since !== undefined && { since: new Date(since) }),
    ...(until !== undefined && { until: new Date(until) }),
  }
}

function replyOf(entry: AuditEntry): AuditEntryReply {
  return { ...entry, at: entry.at.toISOString() }
}
