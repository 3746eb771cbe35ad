/** What the routes of every resource share: their dependencies, headers, pages and documented failures. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Db } from '../../../shared/postgres/plane.ts'
import type { PlaneContext } from '../../../shared/postgres/plane-change.ts'
import { problemSchema } from '../../../shared/protocol/admin-replies.ts'
import { domainSchema, nameSchema } from '../../../shared/protocol/policy.ts'
import { callerOf } from '../access/authenticate.ts'
import type { FactsBook } from '../facts-book.ts'
import type { LiveView } from '../live-view.ts'
import type { PlaneCache } from '../plane-cache.ts'
import {
  type ConditionalHeaders,
  entityTag,
  type Precondition,
  preconditionOf,
  preconditionRequired,
} from '../preconditions.ts'
import type { RolloutView } from '../rollout-view.ts'
import type { StreamHub } from '../stream/stream-hub.ts'

export interface AdminDeps {
  readonly db: Db
  readonly cache: PlaneCache
  readonly live: LiveView
  readonly rollouts: RolloutView
  readonly facts: FactsBook
  readonly wallMs: () => number
  readonly stream: StreamHub
  readonly isBusUp: () => boolean
  readonly isDatabaseUp: () => boolean
  /** Called after each committed change of the plane. */
  readonly onChange: () => void
}

/** Longest reason that a change may give for the audit log. */
const REASON_CHARS_MAX = 500

const writeHeaders = {
  'idempotency-key': z
    .string()
    .optional()
    .describe('a new one with each new write; repeated with the same, it is answered as before'),
  'x-change-reason': z
    .string()
    .refine((text) => (reasonOf(text)?.length ?? 0) <= REASON_CHARS_MAX, {
      error: `must have at most ${REASON_CHARS_MAX} characters`,
    })
    .refine((text) => !reasonOf(text)?.includes('\0'), { error: 'must not hold NUL characters' })
    .optional()
    .describe("why, for the audit log; beyond ASCII as in RFC 8187: UTF-8''f%C3%BCr"),
}

/** Of a change that rests on no state of one resource. */
export const changeHeaders = z.looseObject(writeHeaders)

export const conditionalHeaders = z.looseObject({
  'if-match': z.string().optional().describe('ETag of the state that the change is based on'),
  'if-none-match': z.string().optional().describe('* to create only'),
  ...writeHeaders,
})

export const readHeaders = z.looseObject({ 'if-none-match': z.string().optional() })

export const policyParams = z.object({ domain: domainSchema, name: nameSchema })

/** What is said of a text that is no instant. */
export const NO_TIME = 'is not a time as RFC 3339 writes it'

/** The failures that any route may answer with, for the OpenAPI document. */
export const failures = {
  '4xx': {
    description: 'A problem document that names the fields and how to mend them',
    content: { 'application/problem+json': { schema: problemSchema } },
  },
  '5xx': {
    description: 'A problem document with a code and the request id',
    content: { 'application/problem+json': { schema: problemSchema } },
  },
}

export function requirePrecondition(headers: ConditionalHeaders): Precondition {
  const precondition = preconditionOf(headers)
  if (precondition !== null) return precondition
  throw preconditionRequired(
    'send If-None-Match: * to create, or If-Match with the ETag of the state that the change is based on',
  )
}

export function contextOf(
  req: FastifyRequest,
  headers: { readonly 'x-change-reason'?: string | undefined },
): PlaneContext {
  return {
    actor: callerOf(req).actor,
    requestId: String(req.id),
    reason: reasonOf(headers['x-change-reason']),
    ...(req.scope !== null && { scope: req.scope }),
  }
}

const ENCODED_REASON = /^utf-8'[^']*'(.*)$/i

/** Header fields are ASCII, and reasons are in people's languages. */
function reasonOf(header: string | undefined): string | null {
  const encoded = ENCODED_REASON.exec(header ?? '')?.[1]
  if (encoded === undefined) return header ?? null
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded // Not encoded after all: kept as it was sent.
  }
}

/** Where a request reads: within its own change, which others do not see before the commit. */
export function dbOf(req: FastifyRequest, { db }: AdminDeps): Db {
  return req.scope?.trx ?? db
}

export function tagged(reply: FastifyReply, revision: number): void {
  reply.header('etag', entityTag(revision))
}
