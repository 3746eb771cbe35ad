import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { type Db, readRevision } from '../../../shared/postgres/plane.ts'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import {
  documentsBetween,
  findRevision,
  listRevisionChanges,
  listRevisions,
  type Revision,
} from '../../../shared/postgres/revisions.ts'
import {
  revisionDiffSchema,
  revisionListSchema,
  revisionReplySchema,
  rollbackReplySchema,
  rollbackSchema,
} from '../../../shared/protocol/revisions.ts'
import { preconditionOf } from '../preconditions.ts'
import { revisionNotFound, rollBack } from '../rollback.ts'
import { documentDiffOf } from '../views/document-diff.ts'
import { decimal } from './decimal.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, pageOf, pageQuery } from './paging.ts'
import { type AdminDeps, conditionalHeaders, contextOf, failures, tagged } from './route-support.ts'

/** Changes that a list shows of each revision. */
const LISTED_CHANGES_MAX = 5

/** Changes with their documents in one answer; a document may be some kilobytes. */
const SHOWN_CHANGES_MAX = 1_000

const PATH = '/revisions/:number'
const tags = ['revisions']
const NUMBER_FIX =
  'give the number of a revision in decimal digits, as GET /v1/revisions lists them'
const params = mendedBy(z.object({ number: decimal(0) }), { number: NUMBER_FIX })
const diffQuery = mendedBy(
  z.strictObject({
    against: decimal(0).optional().describe('the other revision; the one before it by default'),
  }),
  { against: `${NUMBER_FIX}, or leave it out` },
)
const revisionCursor = z.tuple([z.number().int().min(1)])

export function revisionRoutes(root: FastifyInstance, deps: AdminDeps): void {
  listRoute(root, deps)
  readRoutes(root, deps)
  rollbackRoute(root, deps)
}

function listRoute(root: FastifyInstance, deps: AdminDeps): void {
  root.withTypeProvider<ZodTypeProvider>().get(
    '/revisions',
    {
      schema: {
        tags,
        summary: 'What changed the plane, newest first; the ETag is its present revision',
        querystring: z.strictObject(pageQuery),
        response: { 200: revisionListSchema, ...failures },
      },
    },
    async (req, reply) => {
      const { cursor, limit } = req.query
      const [before] = decodeCursor(revisionCursor, cursor) ?? [null]
      tagged(reply, await readRevision(deps.db))
      const found = await listRevisions(deps.db, { before, limit: limit + 1 })
      const { items, next } = pageOf(found, limit, ({ revision }) => [revision])
      const numbers = items.map(({ revision }) => revision)
      const changes = await listRevisionChanges(deps.db, numbers, LISTED_CHANGES_MAX)
      return {
        items: items.map((one) => ({
          ...headOf(one),
          changes: [...(changes.get(one.revision) ?? [])],
        })),
        next,
      }
    },
  )
}

function readRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'Read a revision, by any number that it took, with its documents before and after',
        params,
        response: { 200: revisionReplySchema, ...failures },
      },
    },
    async (req) => {
      const found = await requireRevision(deps.db, req.params.number)
      const { revision, changeCount } = found
      const changes = await listRevisionChanges(deps.db, [revision], SHOWN_CHANGES_MAX)
      const shown = changes.get(revision) ?? []
      return {
        ...headOf(found),
        changes: [...shown],
        changesLeftOut: changeCount - shown.length,
      }
    },
  )
  app.get(
    `${PATH}/diff`,
    {
      schema: {
        tags,
        summary:
          'What policies, overrides and domains are at a revision, against another or the one before',
        params,
        querystring: diffQuery,
        response: { 200: revisionDiffSchema, ...failures },
      },
    },
    async (req) => {
      const { first, revision: to } = await requireRevision(deps.db, req.params.number)
      const { against = first - 1 } = req.query
      const from = against === 0 || against === first - 1 ? against : await lastOf(deps.db, against)
      const isForward = from <= to
      const states = await documentsBetween(
        deps.db,
        isForward ? { from, to } : { from: to, to: from },
      )
      const items = states
        .slice(0, SHOWN_CHANGES_MAX)
        .map((one) =>
          documentDiffOf(isForward ? one : { ...one, before: one.after, after: one.before }),
        )
      return { from, to, items, itemsLeftOut: states.length - items.length }
    },
  )
}

function rollbackRoute(root: FastifyInstance, deps: AdminDeps): void {
  root.withTypeProvider<ZodTypeProvider>().post(
    `${PATH}/rollback`,
    {
      schema: {
        tags,
        summary:
          'Bring policies, overrides and domains back to what they were at a revision; If-Match: the present one',
        params,
        headers: conditionalHeaders,
        body: rollbackSchema.nullish(),
        response: { 200: rollbackReplySchema, ...failures },
      },
    },
    async (req) => {
      const change = {
        to: req.params.number,
        precondition: preconditionOf(req.headers),
        nowMs: deps.wallMs(),
      }
      const context = contextOf(req, req.headers)
      const reason = req.body?.reason ?? context.reason
      return await changePlane(deps.db, { ...context, reason }, (plane) => rollBack(plane, change))
    },
  )
}

async function requireRevision(db: Db, wanted: number): Promise<Revision> {
  const found = await findRevision(db, wanted)
  if (found !== null) return found
  throw revisionNotFound(wanted)
}

async function lastOf(db: Db, wanted: number): Promise<number> {
  return (await requireRevision(db, wanted)).revision
}

function headOf({ at, ...revision }: Revision) {
  return { ...revision, at: at.toISOString() }
}
