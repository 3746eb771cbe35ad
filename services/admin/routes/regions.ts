import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { listRegions, type StoredRegion } from '../../../shared/postgres/regions.ts'
import {
  type RegionReply,
  regionListSchema,
  regionReplySchema,
} from '../../../shared/protocol/admin-replies.ts'
import { nameSchema } from '../../../shared/protocol/policy.ts'
import { preconditionOf } from '../preconditions.ts'
import { deleteRegion, putRegion, requireRegion } from '../region-changes.ts'
import { regionReplyOf } from '../views/region.ts'
import { type AdminDeps, conditionalHeaders, contextOf, failures, tagged } from './route-support.ts'

const REGION_DESCRIPTION_CHARS_MAX = 1_000

const PATH = '/regions/:id'
const tags = ['regions']
const params = z.object({ id: nameSchema })

const regionPutSchema = z
  .strictObject({ description: z.string().max(REGION_DESCRIPTION_CHARS_MAX).default('') })
  .meta({ id: 'RegionPut' })

export function regionRoutes(root: FastifyInstance, deps: AdminDeps): void {
  readRoutes(root, deps)
  writeRoutes(root, deps)
}

function readRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/regions',
    {
      schema: {
        tags,
        summary:
          'List the registered regions and their health; a plane has at most 64, all on one page',
        response: { 200: regionListSchema, ...failures },
      },
    },
    async () => {
      const regions = await listRegions(deps.db)
      return { items: regions.map((region) => replyOf(region, deps)), next: null }
    },
  )
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'Read a region and its health',
        params,
        response: { 200: regionReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const region = await requireRegion(deps.db, req.params.id)
      tagged(reply, region.revision)
      return replyOf(region, deps)
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
        summary: 'Register a region, or change its description (If-Match)',
        params,
        headers: conditionalHeaders,
        body: regionPutSchema.nullish(),
        response: { 200: regionReplySchema, 201: regionReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const { region, outcome } = await putRegion(deps.db, {
        id: req.params.id,
        description: req.body?.description ?? '',
        precondition: preconditionOf(req.headers),
        context: contextOf(req, req.headers),
      })
      if (outcome !== 'unchanged') deps.onChange()
      tagged(reply, region.revision)
      reply.code(outcome === 'created' ? 201 : 200)
      return replyOf(region, deps)
    },
  )
  app.delete(
    PATH,
    {
      schema: {
        tags,
        summary: 'Remove a region that no split names',
        params,
        headers: conditionalHeaders,
        response: { 204: z.undefined().describe('Removed'), ...failures },
      },
    },
    async (req, reply) => {
      await deleteRegion(deps.db, {
        id: req.params.id,
        precondition: preconditionOf(req.headers),
        context: contextOf(req, req.headers),
      })
      deps.onChange()
      return reply.code(204).send()
    },
  )
}

function replyOf(region: StoredRegion, deps: AdminDeps): RegionReply {
  return regionReplyOf(region, deps.live.health(region.id, deps.wallMs()))
}
