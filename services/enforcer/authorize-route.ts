import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { senderKey } from '../../shared/core/client-address.ts'
import { ENTRY_VALUE_BYTES_MAX } from '../../shared/core/descriptor.ts'
import { QuotaError } from '../../shared/errors.ts'
import { asciiJson } from '../../shared/protocol/ascii-json.ts'
import { parseCheckRequest } from '../../shared/protocol/check-request.ts'
import { answerOverHttp } from './answer.ts'
import {
  type AuthorizeRules,
  type EntryRule,
  type EntrySource,
  parseAuthorizeQuery,
} from './authorize-query.ts'
import { requireCaller } from './caller-access.ts'
import { rememberQueries } from './check-query.ts'
import type { CheckRouteOptions } from './check-route.ts'
import { nameAsk } from './named-ask.ts'
import { runCheck } from './run-check.ts'

/** How far what a request says of its sender is believed. */
export interface SenderTrust {
  /** Proxies before this enforcer, the gateway included, that append to `X-Forwarded-For`. */
  readonly trustedHops: number
  readonly ipv6Prefix: number
}

export interface AuthorizeOptions extends CheckRouteOptions {
  readonly sender: SenderTrust
}

export const AUTHORIZE_PATH = '/v1/authorize'

const ANONYMOUS = 'anonymous'

/**
 * Adds `GET /v1/authorize`, which decides about the request of a gateway that asks by its headers: nginx'
 * `auth_request`, Traefik's `forwardAuth` and the like. Allowed is 200 without a body; a denial 429, or with
 * `deny=403` the only refusal that nginx passes on, with a problem document.
 */
export function useAuthorize(app: FastifyInstance, options: AuthorizeOptions): void {
  const { region, clock, isRunning } = options
  const answering = { regionJson: asciiJson(region), clock, isRunning }
  const rulesOf = rememberQueries((query) => parseAuthorizeQuery(query, options.headers))
  app.get(AUTHORIZE_PATH, async (req, reply) => {
    const rules = rulesOf(req.url)
    const { domain, cost } = rules
    requireCaller(options, req, reply, domain)
    const descriptors = rules.descriptors.map((entries) => ({
      entries: entries.map((rule) => readEntry(req, rule, rules, options.sender)),
    }))
    const named = nameAsk(parseCheckRequest({ domain, descriptors, cost }))
    const verdict = await runCheck(options, named.ask)
    const body = answerOverHttp(reply, { verdict, named }, rules.form, answering)
    return verdict.allowed ? reply.removeHeader('content-type').send('') : body
  })
}

function readEntry(
  req: FastifyRequest,
  { key, source }: EntryRule,
  rules: AuthorizeRules,
  trust: SenderTrust,
): { readonly key: string; readonly value: string } {
  const value = readSource(req, source, trust) || standIn(req, rules, trust)
  if (value) return { key, value: shortened(value) }
  throw new QuotaError(
    'QUOTA_IDENTITY_MISSING',
    `the request has nothing for "${key}" (${described(source)}), and this gateway lets nobody pass without`,
  )
}

/** The value of an entry; null or empty when the request has none. */
function readSource(req: FastifyRequest, source: EntrySource, trust: SenderTrust): string | null {
  switch (source.kind) {
    case 'header':
      return headerOf(req, source.name)
    case 'path':
      return headerOf(req, source.name)?.replace(/[?#].*$/s, '') ?? null
    case 'client':
      return senderOf(req, trust)
    case 'value':
      return source.text
  }
}

function standIn(req: FastifyRequest, rules: AuthorizeRules, trust: SenderTrust): string | null {
  switch (rules.missing) {
    case 'deny':
      return null
    case 'anonymous':
      return ANONYMOUS
    case 'client':
      return senderOf(req, trust)
  }
}

function senderOf(req: FastifyRequest, trust: SenderTrust): string | null {
  const forwardedFor = headerOf(req, 'x-forwarded-for') ?? undefined
  return senderKey({ peer: req.socket.remoteAddress, forwardedFor, ...trust })
}

function headerOf(req: FastifyRequest, name: string): string | null {
  // Some names that a header field may have are those of what every object has.
  if (!Object.hasOwn(req.headers, name)) return null
  const value = req.headers[name]
  return Array.isArray(value) ? value.join(',') : (value?.trim() ?? null)
}

/** A value that is too long for an entry is counted by its hash: callers cannot be told to send a shorter one. */
function shortened(value: string): string {
  if (Buffer.byteLength(value) <= ENTRY_VALUE_BYTES_MAX) return value
  return `sha256:${createHash('sha256').update(value).digest('hex')}`
}

function described(source: EntrySource): string {
  switch (source.kind) {
    case 'header':
    case 'path':
      return `header ${source.name}`
    case 'client':
      return "the sender's address"
    case 'value':
      return 'a constant'
  }
}
