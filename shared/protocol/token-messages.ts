/**
 * How tokens for checks reach the regions: admin says a mark of them beside the newest revision, and a daemon that knows
 * another mark asks for all of them.
 *
 * The question goes where regions ask for policies, so that it needs no right that a daemon has not; an admin that knows
 * nothing of tokens takes it for such a question and answers without them. Only digests travel.
 */
import { z } from 'zod'
import type { CheckToken } from '../core/check-tokens.ts'
import { POLICY_MESSAGES_VERSION, TOKENS_PAGE_MAX, tokensMarkSchema } from './policy-messages.ts'

/** Text of 32 bytes in base64url. */
const DIGEST = /^[\w-]{43}$/

const checkTokenSchema = z.object({
  id: z.string().min(1).max(64),
  digest: z.string().regex(DIGEST),
  domains: z.array(z.string()).nullable(),
  expiresAtMs: z.number().int().nullable(),
}) satisfies z.ZodType<CheckToken>

/** Some of the tokens in the order of their ids; `next` is the `after` of the next question, null at the end. */
export interface TokensPage {
  readonly mark: string
  readonly asOfMs: number
  readonly items: readonly CheckToken[]
  readonly next: string | null
}

const tokensPageSchema = z.object({
  mark: tokensMarkSchema,
  asOfMs: z.number().int().min(1),
  items: z.array(checkTokenSchema).max(TOKENS_PAGE_MAX),
  next: z.string().nullable(),
}) satisfies z.ZodType<TokensPage>

/** Without `tokens`: from an admin that knows nothing of them. */
export interface TokensReply {
  readonly v: typeof POLICY_MESSAGES_VERSION
  readonly tokens?: TokensPage
}

export const tokensReplySchema = z.object({
  v: z.literal(POLICY_MESSAGES_VERSION),
  tokens: tokensPageSchema.exactOptional(),
}) satisfies z.ZodType<TokensReply>
