/**
 * Who may do what. A resource needs `quota:read` for reading and `quota:write` for changing, unless the table below
 * says otherwise; a caller that is limited to domains may do what touches those domains alone.
 */
import { timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { QuotaError } from '../../../shared/errors.ts'
import { digestOf, parseToken } from '../../../shared/protocol/token-format.ts'
import type { Secret } from '../../../shared/runtime/env.ts'
import { isJwt } from './jwt.ts'
import { type Caller, hasScope, type Scope } from './scopes.ts'
import type { TokenBook } from './token-book.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set once a request has been authenticated. */
    caller: Caller | null
    /** Identifies the caller anew; null as long as it has not been. */
    recheck: (() => Promise<boolean>) | null
  }
}

/** What the audit log names for changes with the plane's own token. */
export const PLANE_TOKEN_ACTOR = 'admin-token'

export interface AccessOptions {
  /** Has every scope; for the first minute of a plane, and for the day on which Postgres holds no token that works. */
  readonly planeToken: Secret | null
  readonly tokens: TokenBook
  readonly verifyJwt: ((token: string) => Promise<Caller | null>) | null
}

const BEARER = /^Bearer +(\S+) *$/i

interface ResourceAccess {
  readonly read?: Scope
  readonly change?: Scope
  /** Reading it shows nothing of any one domain, so a caller that is limited to some may. */
  readonly isOfNoDomain?: boolean
}

/** By the first part of the path after `/v1`. One table, so that no route can forget to say. */
const RESOURCES: Readonly<Record<string, ResourceAccess>> = {
  regions: { change: 'quota:admin', isOfNoDomain: true },
  tokens: { read: 'quota:admin', change: 'quota:admin' },
  whoami: { isOfNoDomain: true },
  // A question too long for a path; it changes nothing.
  explain: { change: 'quota:read' },
  // Names tokens, and shows what is weak.
  doctor: { read: 'quota:admin' },
  rollouts: { isOfNoDomain: true },
  lags: { isOfNoDomain: true },
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Lets only those requests of `app` pass whose caller may make them. */
export function useAccess(app: FastifyInstance, options: AccessOptions): void {
  const planeDigest = options.planeToken === null ? null : digestOf(options.planeToken.reveal())
  app.decorateRequest('caller', null)
  app.decorateRequest('recheck', null)
  app.addHook('onRequest', async (req, reply) => {
    const text = BEARER.exec(req.headers.authorization ?? '')?.[1]
    const caller = text === undefined ? null : await identify(text, options, planeDigest)
    if (caller === null) throw unauthenticated(reply, text !== undefined)
    req.caller = caller
    req.recheck = async () => {
      const again = text === undefined ? null : await identify(text, options, planeDigest)
      return again !== null && hasScope(again, scopeOf(req))
    }
    requireScope(caller, scopeOf(req), reply)
  })
  app.addHook('preHandler', async (req) => {
    if (req.caller !== null) requireDomain(req.caller, req)
  })
}

/** Asks again whether the caller of an authenticated request may do what it asked for: for what goes on for long. */
export function recheckOf(req: FastifyRequest): () => Promise<boolean> {
  if (req.recheck !== null) return req.recheck
  throw new QuotaError('QUOTA_UNAUTHENTICATED', 'the request was not authenticated')
}

/** The caller of an authenticated request. */
export function callerOf(req: FastifyRequest): Caller {
  if (req.caller !== null) return req.caller
  throw new QuotaError('QUOTA_UNAUTHENTICATED', 'the request was not authenticated')
}

async function identify(
  text: string,
  { tokens, verifyJwt }: AccessOptions,
  planeDigest: Buffer | null,
): Promise<Caller | null> {
  // Digests have one length whatever was sent, so neither the length nor a common beginning can be measured.
  if (planeDigest !== null && timingSafeEqual(digestOf(text), planeDigest)) return PLANE_CALLER
  const parts = parseToken(text)
  if (parts !== null) return await tokens.callerOf(parts)
  return verifyJwt !== null && isJwt(text) ? await verifyJwt(text) : null
}

const PLANE_CALLER: Caller = { actor: PLANE_TOKEN_ACTOR, scopes: ['quota:admin'], domains: null }

function unauthenticated(reply: FastifyReply, isGiven: boolean): QuotaError {
  reply.header('www-authenticate', isGiven ? 'Bearer error="invalid_token"' : 'Bearer')
  return new QuotaError(
    'QUOTA_UNAUTHENTICATED',
    isGiven
      ? 'the bearer token is unknown, revoked or expired'
      : 'send the header Authorization: Bearer <token>',
  )
}

function scopeOf(req: FastifyRequest): Scope {
  const access = accessOf(req)
  return isRead(req) ? (access.read ?? 'quota:read') : (access.change ?? 'quota:write')
}

function accessOf(req: FastifyRequest): ResourceAccess {
  const [, , resource = ''] = (req.routeOptions.url ?? '').split('/')
  return RESOURCES[resource] ?? {}
}

function isRead(req: FastifyRequest): boolean {
  return SAFE_METHODS.has(req.method)
}

function requireScope(caller: Caller, scope: Scope, reply: FastifyReply): void {
  if (hasScope(caller, scope)) return
  reply.header('www-authenticate', `Bearer error="insufficient_scope", scope="${scope}"`)
  const held = caller.scopes.length === 0 ? 'none' : caller.scopes.join(', ')
  throw new QuotaError('QUOTA_FORBIDDEN', `this needs the scope ${scope}; the token has ${held}`, {
    problems: [
      {
        field: 'authorization',
        message: `lacks the scope ${scope}`,
        fix: `use a token with ${scope}`,
      },
    ],
  })
}

function requireDomain(caller: Caller, req: FastifyRequest): void {
  const { domains } = caller
  if (domains === null || (isRead(req) && accessOf(req).isOfNoDomain === true)) return
  const asked = domainsOf(req)
  if (asked.length > 0 && asked.every((domain) => domains.includes(domain))) return
  const what = asked.length === 0 ? 'every domain' : `the domain ${asked.join(', ')}`
  throw new QuotaError(
    'QUOTA_FORBIDDEN',
    `this is about ${what}; the token is limited to ${domains.join(', ') || 'none'}`,
    {
      problems: [
        {
          field: 'domain',
          message: 'is outside those of the token',
          fix: `name one of ${domains.join(', ')}`,
        },
      ],
    },
  )
}

/**
 * Every domain that a request names, wherever its route takes one: all of them must be allowed.
 *
 * What a route does not take is not looked at, though it is there: a handler that knows of no domain touches them all,
 * whichever a query or a body speaks of.
 */
function domainsOf(req: FastifyRequest): readonly string[] {
  const { querystring, body } = req.routeOptions.schema ?? {}
  const places = [
    req.params,
    ...(isTaken('domain', querystring) ? [req.query] : []),
    ...(isTaken('domain', body) ? [req.body] : []),
    ...(isTaken('documents', body) ? documentsOf(req.body) : []),
  ]
  return places.flatMap((place) =>
    typeof place === 'object' &&
    place !== null &&
    'domain' in place &&
    typeof place.domain === 'string'
      ? [place.domain]
      : [],
  )
}

/** A shape that is not recognized takes nothing, so that the request is refused. */
function isTaken(field: string, schema: unknown): boolean {
  return schema instanceof z.ZodObject && field in schema.shape
}

/** Policies and domains that a request brings in lists. */
function documentsOf(body: unknown): readonly unknown[] {
  if (typeof body !== 'object' || body === null) return []
  const lists = ['documents' in body && body.documents, 'domains' in body && body.domains]
  return lists.flatMap((list): readonly unknown[] => (Array.isArray(list) ? list : []))
}
