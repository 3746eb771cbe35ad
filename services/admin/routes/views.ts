import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { COUNTER_NAME_LENGTH_MAX } from '../../../shared/core/counter-id.ts'
import type { Policy } from '../../../shared/core/policy.ts'
import { sharesReplySchema, usageReplySchema } from '../../../shared/protocol/admin-replies.ts'
import { domainSchema, nameSchema } from '../../../shared/protocol/policy.ts'
import { agesOf, sharesOf } from '../views/shares.ts'
import { usageViewOf } from '../views/usage.ts'
import { decimal } from './decimal.ts'
import { mendedBy } from './fixes.ts'
import { decodeCursor, pageOf, pageQuery, policyCursor } from './paging.ts'
import { type AdminDeps, failures } from './route-support.ts'

const KEYS_DEFAULT = 20

/** Hot keys shown of one limit. A record may hold tens of thousands; this is a view and no export. */
const KEYS_MAX = 1_000

const SHARES_FIXES = {
  keys: `give a whole number from 1 to ${KEYS_MAX}, or leave it out`,
  hungry: 'give true or false, or leave it out',
  key: 'give a key as answers name it, or leave it out',
}

const tags = ['views']

const viewQuery = {
  ...pageQuery,
  domain: domainSchema.optional(),
  policy: nameSchema.optional(),
}

/**
 * What the regions last said of themselves. Answered from memory, so it needs neither Postgres nor NATS; the
 * ages tell how old it is.
 */
export function viewRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/shares',
    {
      schema: {
        tags,
        summary: 'Shares of each limit by hot key and region',
        querystring: mendedBy(
          z.strictObject({
            ...viewQuery,
            keys: decimal(1, KEYS_MAX).default(KEYS_DEFAULT),
            hungry: z
              .stringbool({ error: 'must be true or false' })
              .default(false)
              .describe('only keys that some region denies for want of a share'),
            key: z
              .string()
              .min(1)
              .max(COUNTER_NAME_LENGTH_MAX)
              .optional()
              .describe('only this hot key, as it is named in answers'),
          }),
          SHARES_FIXES,
        ),
        response: { 200: sharesReplySchema, ...failures },
      },
    },
    async (req) => {
      const { policies, next, ...query } = viewOf(req.query, deps)
      const { keys: keysMax, hungry: isHungryOnly, key } = req.query
      const limits = sharesOf({ ...query, policies, keysMax, isHungryOnly, key })
      return { at: isoTime(query.nowMs), regions: agesOf(query), limits: [...limits], next }
    },
  )
  app.get(
    '/usage',
    {
      schema: {
        tags,
        summary: 'Tokens admitted, denied and returned of each limit by window and region',
        querystring: z.strictObject(viewQuery),
        response: { 200: usageReplySchema, ...failures },
      },
    },
    async (req) => {
      const { policies, next, ...query } = viewOf(req.query, deps)
      const limits = usageViewOf({ ...query, policies })
      return { at: isoTime(query.nowMs), regions: agesOf(query), limits: [...limits], next }
    },
  )
}

function viewOf(
  query: {
    readonly cursor?: string | undefined
    readonly limit: number
    readonly domain?: string | undefined
    readonly policy?: string | undefined
  },
  deps: AdminDeps,
) {
  const [afterDomain, afterName] = decodeCursor(policyCursor, query.cursor) ?? ['', '']
  const found = [...deps.cache.policies]
    .filter((policy) => query.domain === undefined || policy.domain === query.domain)
    .filter((policy) => query.policy === undefined || policy.name === query.policy)
    .filter((policy) => compareNames(policy, { domain: afterDomain, name: afterName }) > 0)
    .sort(compareNames)
  const { items, next } = pageOf(found, query.limit, ({ domain, name }) => [domain, name])
  return {
    policies: items,
    next,
    members: deps.cache.members,
    live: deps.live,
    nowMs: deps.wallMs(),
  }
}

type Named = Pick<Policy, 'domain' | 'name'>

function compareNames(one: Named, other: Named): number {
  if (one.domain !== other.domain) return one.domain < other.domain ? -1 : 1
  if (one.name === other.name) return 0
  return one.name < other.name ? -1 : 1
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
