import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import type { StoredPolicy } from '../../../shared/postgres/policy-rows.ts'
import {
  overrideBatchReplySchema,
  overrideListSchema,
  overrideReplySchema,
} from '../../../shared/protocol/admin-replies.ts'
import { overridePutSchema, tenantValueSchema } from '../../../shared/protocol/policy-override.ts'
import { changeOverrides, type OverridesChange } from '../override-changes.ts'
import { overrideOf, placesIn } from '../override-diffs.ts'
import { requirePolicy } from '../policy-changes.ts'
import { preconditionOf } from '../preconditions.ts'
import { overrideReplyOf } from '../views/override.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, pageOf, pageQuery } from './paging.ts'
import {
  type AdminDeps,
  conditionalHeaders,
  contextOf,
  failures,
  policyParams,
  tagged,
} from './route-support.ts'

/** Most overrides of one request; a body holds about as many. */
const BATCH_MAX = 1_000

const PATH = '/domains/:domain/policies/:name/overrides'
const tags = ['overrides']
const VALUE_FIX = "give the value of the tenant's entry, such as acme"
const params = mendedBy(policyParams.extend({ value: tenantValueSchema }), { value: VALUE_FIX })

const RULE_FIXES = {
  value: VALUE_FIX,
  limits: 'give numbers by limit such as {"per-second":{"capacity":20000}}, or leave it out',
  unlimited: 'give true, or leave it out',
  deny: 'give true, or leave it out',
}

const batchSchema = mendedBy(
  z
    .strictObject({
      set: z
        .array(overridePutSchema.safeExtend({ value: tenantValueSchema }))
        .max(BATCH_MAX, { error: `has more than ${BATCH_MAX} overrides` })
        .default([]),
      remove: z
        .array(tenantValueSchema)
        .max(BATCH_MAX, { error: `has more than ${BATCH_MAX} values` })
        .default([]),
    })
    .meta({ id: 'OverrideBatch' }),
  {
    set: `give at most ${BATCH_MAX} overrides such as {"value":"acme","unlimited":true}`,
    remove: `give at most ${BATCH_MAX} values such as "acme"`,
    ...RULE_FIXES,
  },
)

/** What single tenants have in place of a policy's numbers. Changes need no deploy and keep each tenant's usage. */
export function overrideRoutes(root: FastifyInstance, deps: AdminDeps): void {
  readRoutes(root, deps)
  writeRoutes(root, deps)
  batchRoute(root, deps)
}

function readRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    PATH,
    {
      schema: {
        tags,
        summary: 'List the overrides of a policy by value',
        params: policyParams,
        querystring: z.strictObject(pageQuery),
        response: { 200: overrideListSchema, ...failures },
      },
    },
    async (req) => {
      const { cursor, limit } = req.query
      const [after] = decodeCursor(z.tuple([z.string()]), cursor) ?? ['']
      const policy = await requirePolicy(deps.db, req.params)
      const found = (policy.overrides ?? [])
        .filter(({ value }) => value > after)
        .sort((one, other) => (one.value < other.value ? -1 : 1))
      const { items, next } = pageOf(found, limit, ({ value }) => [value])
      return { items: items.map(overrideReplyOf), next }
    },
  )
}

function writeRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.put(
    `${PATH}/:value`,
    {
      schema: {
        tags,
        summary: 'Set what one tenant has; If-Match is optional',
        params,
        headers: conditionalHeaders,
        body: mendedBy(overridePutSchema, RULE_FIXES),
        response: { 200: overrideReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const { value, ...key } = req.params
      const override = overrideOf(value, req.body)
      await change(deps, { req, reply, key, set: [override], remove: [] })
      return overrideReplyOf(override)
    },
  )
  app.delete(
    `${PATH}/:value`,
    {
      schema: {
        tags,
        summary: 'Give one tenant what the policy says again',
        params,
        headers: conditionalHeaders,
        response: { 204: z.undefined().describe('Removed'), ...failures },
      },
    },
    async (req, reply) => {
      const { value, ...key } = req.params
      await change(deps, { req, reply, key, set: [], remove: [value] })
      reply.code(204)
      return undefined
    },
  )
}

function batchRoute(root: FastifyInstance, deps: AdminDeps): void {
  root.withTypeProvider<ZodTypeProvider>().post(
    PATH,
    {
      schema: {
        tags,
        summary: 'Set and remove many overrides at once, all or none',
        params: policyParams,
        headers: conditionalHeaders,
        body: batchSchema,
        response: { 200: overrideBatchReplySchema, ...failures },
      },
    },
    async (req, reply) => {
      const { set, remove } = req.body
      const overrides = set.map(({ value, ...put }) => overrideOf(value, put))
      const at = placesIn('set', overrides)
      const asked = { req, reply, key: req.params, set: overrides, remove, at }
      const { revision, overrides: all = [] } = await change(deps, asked)
      return { revision, count: all.length }
    },
  )
}

interface AskedChange extends Pick<OverridesChange, 'key' | 'set' | 'remove' | 'at'> {
  readonly req: FastifyRequest & { readonly headers: z.output<typeof conditionalHeaders> }
  readonly reply: FastifyReply
}

async function change(
  deps: AdminDeps,
  { req, reply, ...asked }: AskedChange,
): Promise<StoredPolicy> {
  const precondition = preconditionOf(req.headers) ?? ({ kind: 'present' } as const)
  const asking = { ...asked, precondition, nowMs: deps.wallMs() }
  const context = contextOf(req, req.headers)
  const policy = await changePlane(deps.db, context, (plane) => changeOverrides(plane, asking))
  tagged(reply, policy.revision)
  return policy
}
