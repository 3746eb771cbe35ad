import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import { listRegions, type StoredRegion } from '../../../shared/postgres/regions.ts'
import {
  type RegionReply,
  regionListSchema,
  regionReplySchema,
} from '../../../shared/protocol/admin-replies.ts'
import { EMERGENCY_TTL_SECONDS_MAX } from '../../../shared/protocol/emergency.ts'
import { nameSchema } from '../../../shared/protocol/policy.ts'
import { whole } from '../../../shared/protocol/policy-fields.ts'
import { preconditionOf } from '../preconditions.ts'
import { deleteRegion, putRegion, requireRegion } from '../region-changes.ts'
import { certifyRegion, drainRegion, type LifeChange, resumeRegion } from '../region-drain.ts'
import { moveOf, regionReplyOf } from '../views/region.ts'
import { mendedBy } from './fixes.ts'
import {
  type AdminDeps,
  conditionalHeaders,
  contextOf,
  dbOf,
  failures,
  tagged,
} from './route-support.ts'

const REGION_DESCRIPTION_CHARS_MAX = 1_000

const PATH = '/regions/:id'
const tags = ['regions']
const params = z.object({ id: nameSchema })

const regionPutSchema = mendedBy(
  z
    .strictObject({ description: z.string().max(REGION_DESCRIPTION_CHARS_MAX).default('') })
    .meta({ id: 'RegionPut' }),
  { description: `give a text of at most ${REGION_DESCRIPTION_CHARS_MAX} characters` },
)

const text = (what: string, max: number) =>
  z
    .string({
      error: ({ input }) =>
        input === undefined ? `is missing: say ${what}` : `must be a text that says ${what}`,
    })
    .trim()
    .min(1, { error: `must say ${what}` })
    .max(max, { error: `must have at most ${max} characters` })

const certificateSchema = mendedBy(
  z
    .strictObject({
      certifiedBy: text('who certifies it', 200),
      reason: text('why the region is removed', 1_000),
      nothingInUse: z.literal(true, {
        error:
          'must be true: certify that its traffic is off and that its sync daemons and its Redis are stopped, and stay so until its Redis is wiped',
      }),
    })
    .meta({ id: 'RemovalCertificate' }),
  {
    certifiedBy: 'give the name of the person who certifies it',
    reason: 'say why the region is removed',
    nothingInUse: 'make sure of it, then give true',
  },
)

const drainSchema = mendedBy(
  z
    .strictObject({
      ttlSeconds: whole(1, EMERGENCY_TTL_SECONDS_MAX)
        .exactOptional()
        .describe(
          'after that many seconds it resumes by itself; left out: not before it is told to',
        ),
    })
    .meta({ id: 'RegionDrain', examples: [{ ttlSeconds: 7_200 }] })
    .nullish(),
  {
    ttlSeconds: `give a whole number of seconds from 1 to ${EMERGENCY_TTL_SECONDS_MAX}, or leave it out for a drain that lasts until the region is resumed or removed`,
  },
)

export function regionRoutes(root: FastifyInstance, deps: AdminDeps): void {
  readRoutes(root, deps)
  writeRoutes(root, deps)
  lifeRoutes(root, deps)
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
      const items = await Promise.all(regions.map((region) => replyOf(region, deps)))
      return { items, next: null }
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
      return await replyOf(region, { ...deps, db: dbOf(req, deps) })
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
      const description = req.body?.description ?? ''
      const change = { ...changeOf(req.params.id, req.headers), description }
      const context = contextOf(req, req.headers)
      const { region, outcome } = await changePlane(deps.db, context, (plane) =>
        putRegion(plane, change),
      )
      tagged(reply, region.revision)
      reply.code(outcome === 'created' ? 201 : 200)
      return await replyOf(region, { ...deps, db: dbOf(req, deps) })
    },
  )
  app.delete(
    PATH,
    {
      schema: {
        tags,
        summary: 'Remove a region that was drained or never had a part of a limit',
        params,
        headers: conditionalHeaders,
        response: { 204: z.undefined().describe('Removed'), ...failures },
      },
    },
    async (req, reply) => {
      const change = changeOf(req.params.id, req.headers)
      const context = contextOf(req, req.headers)
      await changePlane(deps.db, context, (plane) => deleteRegion(plane, change))
      reply.code(204)
      return undefined
    },
  )
}

function lifeRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  const schema = { tags, params, headers: conditionalHeaders }
  const answers = { 200: regionReplySchema, ...failures }
  app.post(
    `${PATH}/drain`,
    {
      schema: {
        ...schema,
        summary:
          'Move the part of a region in every limit to the others, for a time; its callers go on by loans',
        body: drainSchema,
        response: answers,
      },
    },
    async (req, reply) => {
      const { ttlSeconds } = req.body ?? {}
      const resumesAt =
        ttlSeconds === undefined ? null : new Date(deps.wallMs() + ttlSeconds * 1_000)
      const change = { ...changeOf(req.params.id, req.headers), resumesAt }
      const context = contextOf(req, req.headers)
      const region = await changePlane(deps.db, context, (plane) => drainRegion(plane, change))
      return await answer(reply, { ...deps, db: dbOf(req, deps) }, region)
    },
  )
  app.post(
    `${PATH}/resume`,
    {
      schema: {
        ...schema,
        summary: 'Move back what the splits give a region that was drained',
        response: answers,
      },
    },
    async (req, reply) => {
      const change = changeOf(req.params.id, req.headers)
      const context = contextOf(req, req.headers)
      const region = await changePlane(deps.db, context, (plane) => resumeRegion(plane, change))
      return await answer(reply, { ...deps, db: dbOf(req, deps) }, region)
    },
  )
  app.post(
    `${PATH}/remove`,
    {
      schema: {
        ...schema,
        summary:
          'Remove a region that is lost, on the word of whoever certifies that nothing of it is in use',
        body: certificateSchema,
        response: answers,
      },
    },
    async (req, reply) => {
      const { certifiedBy, reason } = req.body
      const change = {
        ...changeOf(req.params.id, req.headers),
        certificate: { certifiedBy, reason },
        live: deps.live,
        nowMs: deps.wallMs(),
      }
      const context = contextOf(req, req.headers)
      const region = await changePlane(deps.db, context, (plane) => certifyRegion(plane, change))
      return await answer(reply, { ...deps, db: dbOf(req, deps) }, region)
    },
  )
}

function changeOf(id: string, headers: z.infer<typeof conditionalHeaders>): LifeChange {
  return { id, precondition: preconditionOf(headers) }
}

async function answer(
  reply: FastifyReply,
  deps: AdminDeps,
  region: StoredRegion,
): Promise<RegionReply> {
  tagged(reply, region.revision)
  return await replyOf(region, deps)
}

async function replyOf(region: StoredRegion, deps: AdminDeps): Promise<RegionReply> {
  const health = deps.live.health(region.id, deps.wallMs())
  return regionReplyOf(region, health, await moveOf(deps.db, region))
}
