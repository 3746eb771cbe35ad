import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { QuotaError } from '../../shared/errors.ts'
import type { Secret } from '../../shared/runtime/env.ts'

/** Who the audit log names while one token is all there is to tell callers apart. */
export const TOKEN_ACTOR = 'admin-token'

const BEARER = /^Bearer +(\S+) *$/i

/**
 * A hook that lets a request pass only with the bearer token.
 *
 * Digests are compared, in constant time: they have one length whatever was sent, so neither the length nor a
 * common beginning of the token can be measured.
 */
export function requireToken(
  token: Secret,
): (req: FastifyRequest, reply: FastifyReply) => Promise<void> {
  const expected = digest(token.reveal())
  return async (req, reply) => {
    const given = BEARER.exec(req.headers.authorization ?? '')?.[1]
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return
    reply.header('www-authenticate', 'Bearer')
    throw new QuotaError(
      'QUOTA_UNAUTHENTICATED',
      given === undefined
        ? 'send the header Authorization: Bearer <token>'
        : 'the bearer token is not the one of this plane',
    )
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
