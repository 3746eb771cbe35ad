/** Tokens of the admin API as it takes and shows them. */
import { z } from 'zod'
import { domainSchema, nameSchema } from './policy.ts'

/** What a token may do. `quota:admin` includes the others, and alone changes tokens and regions. */
export const SCOPES = ['quota:read', 'quota:write', 'quota:check', 'quota:admin'] as const
export type Scope = (typeof SCOPES)[number]

const DOMAINS_MAX = 100

/** Longest life of a token that has an end: ten years. */
const EXPIRES_DAYS_MAX = 3_650

const scopeSchema = z.enum(SCOPES, { error: 'is not a scope' })

export const TOKEN_FIXES = {
  scopes: `give one or more of ${SCOPES.join(', ')}`,
  domains: `give 1 to ${DOMAINS_MAX} domains, or leave it out for all`,
  expiresInDays: `give a whole number from 1 to ${EXPIRES_DAYS_MAX}, or leave it out`,
}

export const tokenCreateSchema = z
  .strictObject({
    name: nameSchema,
    scopes: z.array(scopeSchema).min(1).max(SCOPES.length),
    domains: z.array(domainSchema).min(1).max(DOMAINS_MAX).exactOptional(),
    expiresInDays: z.number().int().min(1).max(EXPIRES_DAYS_MAX).exactOptional(),
  })
  .meta({
    id: 'TokenCreate',
    examples: [
      { name: 'ci', scopes: ['quota:read', 'quota:write'], domains: ['api'], expiresInDays: 90 },
    ],
  })

const time = z.iso.datetime()

export const tokenReplySchema = z
  .object({
    id: z.string(),
    name: z.string(),
    scopes: z.array(scopeSchema),
    domains: z.array(z.string()).nullable().describe('null: every domain'),
    createdAt: time,
    createdBy: z.string(),
    expiresAt: time.nullable(),
    revokedAt: time.nullable(),
    lastUsedAt: time
      .nullable()
      .describe('by admin, to within half a minute; enforcers do not tell'),
  })
  .meta({ id: 'Token' })
export type TokenReply = z.infer<typeof tokenReplySchema>

export const tokenListSchema = z
  .object({ items: z.array(tokenReplySchema), next: z.null() })
  .meta({ id: 'TokenList' })

export const tokenCreatedSchema = tokenReplySchema
  .extend({ token: z.string().describe('shown this once; only a digest of it is kept') })
  .meta({ id: 'TokenCreated' })

export const callerSchema = z
  .object({
    actor: z.string().describe('what the audit log names'),
    scopes: z.array(scopeSchema),
    domains: z.array(z.string()).nullable(),
  })
  .meta({ id: 'Caller' })
