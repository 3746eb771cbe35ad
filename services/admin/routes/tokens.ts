import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import {
  createToken,
  requireToken,
  revokeToken,
  TOKENS_MAX,
} from '../../../shared/postgres/token-changes.ts'
import { listTokens, type StoredToken } from '../../../shared/postgres/tokens.ts'
import {
  callerSchema,
  type TokenReply,
  tokenCreatedSchema,
  tokenCreateSchema,
  tokenListSchema,
  tokenReplySchema,
} from '../../../shared/protocol/tokens.ts'
import { callerOf } from '../access/authenticate.ts'
import { isScope } from '../access/scopes.ts'
import type { TokenBook } from '../access/token-book.ts'
import { mendedBy } from './fixes.ts'
import { type AdminDeps, conditionalHeaders, contextOf, failures } from './route-support.ts'

const tags = ['tokens']
const DAY_MS = 86_400_000
const params = mendedBy(
  z.object({ id: z.string().max(64).describe('the middle part of the token') }),
  { id: 'give the id as GET /v1/tokens lists it: the middle part of the token' },
)

export function tokenRoutes(root: FastifyInstance, deps: AdminDeps, tokens: TokenBook): void {
  whoami(root)
  readRoutes(root, deps)
  changeRoutes(root, deps, tokens)
}

function whoami(root: FastifyInstance): void {
  root.withTypeProvider<ZodTypeProvider>().get(
    '/whoami',
    {
      schema: {
        tags,
        summary: 'Who the bearer token belongs to, and what it may do',
        response: { 200: callerSchema, ...failures },
      },
    },
    async (req) => {
      const { actor, scopes, domains } = callerOf(req)
      return { actor, scopes: [...scopes], domains: domains === null ? null : [...domains] }
    },
  )
}

function readRoutes(root: FastifyInstance, deps: AdminDeps): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.get(
    '/tokens',
    {
      schema: {
        tags,
        summary: 'List the tokens that work (?revoked=true: the others too)',
        querystring: mendedBy(
          z.strictObject({ revoked: z.enum(['true', 'false']).default('false') }),
          { revoked: 'give true or false, or leave it out' },
        ),
        response: { 200: tokenListSchema, ...failures },
      },
    },
    async (req) => {
      const query = { withRevoked: req.query.revoked === 'true', limit: TOKENS_MAX }
      return { items: (await listTokens(deps.db, query)).map(replyOf), next: null }
    },
  )
  app.get(
    '/tokens/:id',
    {
      schema: {
        tags,
        summary: 'Read a token',
        params,
        response: { 200: tokenReplySchema, ...failures },
      },
    },
    async (req) => replyOf(await requireToken(deps.db, req.params.id)),
  )
}

function changeRoutes(root: FastifyInstance, deps: AdminDeps, tokens: TokenBook): void {
  const app = root.withTypeProvider<ZodTypeProvider>()
  app.post(
    '/tokens',
    {
      schema: {
        tags,
        summary: 'Make a token; it is shown this once',
        headers: conditionalHeaders,
        body: tokenCreateSchema,
        response: { 201: tokenCreatedSchema, ...failures },
      },
    },
    async (req, reply) => {
      const { name, scopes, domains = null, expiresInDays } = req.body
      const expiresAt =
        expiresInDays === undefined ? null : new Date(deps.wallMs() + expiresInDays * DAY_MS)
      const request = { name, scopes, domains, expiresAt }
      const { row, token } = await createToken(deps.db, request, contextOf(req, req.headers))
      // No proxy or browser may keep it.
      reply.code(201).header('cache-control', 'no-store').header('location', `/v1/tokens/${row.id}`)
      return { ...replyOf(row), token }
    },
  )
  app.delete(
    '/tokens/:id',
    {
      schema: {
        tags,
        summary: 'Revoke a token; every admin and connected region refuses it within seconds',
        params,
        headers: conditionalHeaders,
        response: { 200: tokenReplySchema, ...failures },
      },
    },
    async (req) => {
      const row = await revokeToken(deps.db, req.params.id, contextOf(req, req.headers))
      tokens.forget(row.id)
      return replyOf(row)
    },
  )
}

function replyOf(row: StoredToken): TokenReply {
  const textOf = (at: Date | null): string | null => at?.toISOString() ?? null
  return {
    id: row.id,
    name: row.name,
    scopes: row.scopes.filter(isScope),
    domains: row.domains === null ? null : [...row.domains],
    createdAt: row.createdAt.toISOString(),
    createdBy: row.createdBy,
    expiresAt: textOf(row.expiresAt),
    revokedAt: textOf(row.revokedAt),
    lastUsedAt: textOf(row.lastUsedAt),
  }
}
