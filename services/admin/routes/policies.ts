import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import type { PolicyKey } from '../../../shared/postgres/policies.ts'
import type { StoredPolicy } from '../../../shared/postgres/policy-rows.ts'
import {
  type PolicyReply,
  policyListSchema,
  policyReplySchema,
  policyStatusSchema,
} from '../../../shared/protocol/admin-replies.ts'
import {
  domainSchema,
  type PolicyDocument,
  policyDocumentSchema,
  policyPutSchema,
} from '../../../shared/protocol/policy.ts'
import { nameSchema } from '../../../shared/protocol/policy-fields.ts'
import { labelsQuery, parseLabels } from '../../../shared/protocol/policy-labels.ts'
import { invalidInput } from '../../../shared/protocol/zod-problems.ts'
import { callerOf } from '../access/authenticate.ts'
import {
  type ChangedPolicy,
  deletePolicy,
  putPolicy,
  requirePolicy,
  resetPolicy,
} from '../policy-changes.ts'
import { pageOfPolicies } from '../policy-list.ts'
import { isNotModified, preconditionOf } from '../preconditions.ts'
import { policyReplyOf, policyStatusOf } from '../views/policy.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, pageOf, pageQuery, policyCursor } from './paging.ts'
import {
  type AdminDeps,
  conditionalHeaders,
  contextOf,
  failures,
  policyParams,
  readHeaders,
  requirePrecondition,
  tagged,
} from './route-support.ts'

const PATH = '/domains/:domain/policies/:name'
const tags = ['policies']

const SEARCH_CHARS_MAX = 200

const resetSchema = mendedBy(
  z
    .strictObject({ limit: nameSchema.optional().describe('left out: every limit') })
    .meta({ id: 'CounterReset' }),
  { limit: 'name a limit of the policy, or leave it out for all' },
)

export function policyRoutes(root: FastifyInstance, deps: AdminDeps): void {
  readRoutes(root, deps)
  putRoutes(root, deps)
  removeRoutes(root, deps)
}

function readRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/policies',
    {
      schema: {
        tags,
        summary: 'List policies',
        querystring: z.strictObject({
          ...pageQuery,
          domain: domainSchema.optional(),
          labels: labelsQuery,
          search: z
            .string()
            .max(SEARCH_CHARS_MAX)
            .optional()
            .describe('only those that have this in domain/name or their description'),
        }),
        response: { 200: policyListSchema, ...failures },
      },
    },
    async (req) => {
      const { cursor, domain, labels, search, limit } = req.query
      const after = decodeCursor(policyCursor, cursor)
      const found = await pageOfPolicies(deps, {
        domain,
        labels: parseLabels(labels ?? '') ?? undefined,
        search,
        after: after && { domain: after[0], name: after[1] },
        limit: limit + 1,
      })
      const { items, next } = pageOf(found, limit, (one) => [one.domain, one.name])
      return { items: items.map((policy) => shown(policy, deps)), next }
    },
  )
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'Read a policy',
        params: policyParams,
        headers: readHeaders,
        response: {
          200: policyReplySchema,
          304: z.undefined().describe('Not modified'),
          ...failures,
        },
      },
    },
    async (req, reply) => {
      const policy = await requirePolicy(deps.db, req.params)
      tagged(reply, policy.revision)
      if (isNotModified(req.headers['if-none-match'], policy.revision)) {
        return reply.code(304).send()
      }
      return shown(policy, deps)
    },
  )
  app.get(
    `${PATH}/status`,
    {
      schema: {
        tags,
        summary: 'Where a policy is applied, and which regions a split still awaits',
        params: policyParams,
        response: { 200: policyStatusSchema, ...failures },
      },
    },
    async (req) => {
      const policy = await requirePolicy(deps.db, req.params)
      return await policyStatusOf(policy, deps, callerOf(req))
    },
  )
}

function putRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  const response = { 200: policyReplySchema, 201: policyReplySchema, ...failures }
  app.put(
    PATH,
    {
      schema: {
        tags,
        summary: 'Create (If-None-Match: *) or replace (If-Match) a policy',
        params: policyParams,
        headers: conditionalHeaders,
        body: policyPutSchema,
        response,
      },
    },
    async (req, reply) => {
      const change = {
        key: req.params,
        document: documentAt(req.params, req.body),
        precondition: requirePrecondition(req.headers),
        nowMs: deps.wallMs(),
      }
      const context = contextOf(req, req.headers)
      const changed = await changePlane(deps.db, context, (plane) => putPolicy(plane, change))
      return answerChange(reply, changed, deps)
    },
  )
  app.post(
    '/policies',
    {
      schema: {
        tags,
        summary: 'Create a policy; 409 when it exists',
        headers: conditionalHeaders,
        body: policyDocumentSchema,
        response,
      },
    },
    async (req, reply) => {
      const { domain, name } = req.body
      const change = {
        key: { domain, name },
        document: req.body,
        precondition: { kind: 'new' },
        nowMs: deps.wallMs(),
      } as const
      const context = contextOf(req, req.headers)
      const changed = await changePlane(deps.db, context, (plane) => putPolicy(plane, change))
      reply.header('location', `/v1/domains/${domain}/policies/${name}`)
      return answerChange(reply, changed, deps)
    },
  )
}

function removeRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.delete(
    PATH,
    {
      schema: {
        tags,
        summary: 'Delete a policy with its limits',
        params: policyParams,
        headers: conditionalHeaders,
        response: { 204: z.undefined().describe('Deleted'), ...failures },
      },
    },
    async (req, reply) => {
      const change = { key: req.params, precondition: requirePrecondition(req.headers) }
      const context = contextOf(req, req.headers)
      await changePlane(deps.db, context, (plane) => deletePolicy(plane, change))
      reply.code(204)
      return undefined
    },
  )
  app.post(
    `${PATH}/reset`,
    {
      schema: {
        tags,
        summary:
          'Start the counters of a policy, or of one of its limits, anew in every region; If-Match is optional',
        description:
          'Of all keys: counters of one tenant are not reset alone, since records that come late would undo it. Let it through for a while instead (POST /v1/emergency-actions, kind allow), or give it as much more until the window ends (PUT …/overrides/{value} with expiresAt).',
        params: policyParams,
        headers: conditionalHeaders,
        body: resetSchema.nullish(),
        response: { 200: policyReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const precondition = preconditionOf(req.headers) ?? ({ kind: 'present' } as const)
      const change = { key: req.params, precondition, limit: req.body?.limit }
      const context = contextOf(req, req.headers)
      const policy = await changePlane(deps.db, context, (plane) => resetPolicy(plane, change))
      tagged(reply, policy.revision)
      return shown(policy, deps)
    },
  )
}

function answerChange(reply: FastifyReply, changed: ChangedPolicy, deps: AdminDeps): PolicyReply {
  const { policy, outcome } = changed
  tagged(reply, policy.revision)
  reply.code(outcome === 'created' ? 201 : 200)
  return shown(policy, deps)
}

function shown(policy: StoredPolicy, { cache, wallMs }: AdminDeps): PolicyReply {
  return policyReplyOf(policy, { members: cache.members, nowMs: wallMs() })
}

/** The path says which policy is meant; a body that says otherwise is a mistake and changes neither. */
function documentAt(key: PolicyKey, body: z.output<typeof policyPutSchema>): PolicyDocument {
  const problems = (['domain', 'name'] as const)
    .filter((field) => body[field] !== undefined && body[field] !== key[field])
    .map((field) => ({
      field,
      message: `is ${body[field]}, and the path says ${key[field]}`,
      fix: `leave ${field} out of the body, or put to the path of ${body[field]}`,
    }))
  if (problems.length > 0) throw invalidInput(problems)
  return { ...body, ...key }
}
