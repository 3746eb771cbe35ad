import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { listDomains } from '../../../shared/postgres/domains.ts'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import {
  domainListSchema,
  domainPutSchema,
  domainReplySchema,
} from '../../../shared/protocol/domains.ts'
import { domainSchema } from '../../../shared/protocol/policy-fields.ts'
import { labelsQuery, parseLabels } from '../../../shared/protocol/policy-labels.ts'
import { deleteDomain, putDomains, requireDomain } from '../domain-changes.ts'
import { decodeCursor, pageOf, pageQuery } from './paging.ts'
import {
  type AdminDeps,
  conditionalHeaders,
  contextOf,
  dbOf,
  failures,
  requirePrecondition,
  tagged,
} from './route-support.ts'

const PATH = '/domains/:domain'
const tags = ['domains']
const params = z.object({ domain: domainSchema })
const cursorSchema = z.tuple([domainSchema])

export function domainRoutes(root: FastifyInstance, deps: AdminDeps): void {
  readRoutes(root, deps)
  writeRoutes(root, deps)
}

function readRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/domains',
    {
      schema: {
        tags,
        summary: 'List domains: what each is for, whose it is, and how many policies it has',
        querystring: z.strictObject({
          ...pageQuery,
          domain: domainSchema.optional(),
          labels: labelsQuery,
        }),
        response: { 200: domainListSchema, ...failures },
      },
    },
    async (req) => {
      const { cursor, domain, labels, limit } = req.query
      const [after] = decodeCursor(cursorSchema, cursor) ?? [null]
      const found = await listDomains(deps.db, {
        domain,
        labels: parseLabels(labels ?? '') ?? undefined,
        after,
        limit: limit + 1,
      })
      return pageOf(found, limit, ({ domain: name }) => [name])
    },
  )
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'Read a domain',
        params,
        response: { 200: domainReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const domain = await requireDomain(deps.db, req.params.domain)
      tagged(reply, domain.revision)
      return domain
    },
  )
}

function writeRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.put(
    PATH,
    {
      schema: {
        tags,
        summary:
          'Describe a domain, anew (If-None-Match: *) or in place of what is said (If-Match)',
        params,
        headers: conditionalHeaders,
        body: domainPutSchema,
        response: { 200: domainReplySchema, 201: domainReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const { domain } = req.params
      const put = { ...req.body, domain, precondition: requirePrecondition(req.headers) }
      const context = contextOf(req, req.headers)
      const [changed] = await changePlane(deps.db, context, (plane) => putDomains(plane, [put]))
      reply.code(changed?.outcome === 'created' ? 201 : 200)
      const stored = await requireDomain(dbOf(req, deps), domain)
      tagged(reply, stored.revision)
      return stored
    },
  )
  app.delete(
    PATH,
    {
      schema: {
        tags,
        summary: 'Delete a domain that has no policies',
        params,
        headers: conditionalHeaders,
        response: { 204: z.undefined().describe('Deleted'), ...failures },
      },
    },
    async (req, reply) => {
      const change = { ...req.params, precondition: requirePrecondition(req.headers) }
      await changePlane(deps.db, contextOf(req, req.headers), (plane) =>
        deleteDomain(plane, change),
      )
      reply.code(204)
      return undefined
    },
  )
}
