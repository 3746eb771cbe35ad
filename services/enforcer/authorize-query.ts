/** What `/v1/authorize` is told by its query string: how a gateway's request becomes a check. */
import { DESCRIPTORS_MAX, ENTRIES_MAX } from '../../shared/core/descriptor.ts'
import { TOKENS_MAX } from '../../shared/core/units.ts'
import type { HeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import type { AnswerForm } from './answer.ts'
import { parseHeadersParameter, refuse, refuseUnknown, single } from './check-query.ts'

/** Where an entry's value comes from. */
export type EntrySource =
  | { readonly kind: 'header'; readonly name: string }
  | { readonly kind: 'path'; readonly name: string }
  | { readonly kind: 'client' }
  | { readonly kind: 'value'; readonly text: string }

export interface EntryRule {
  readonly key: string
  readonly source: EntrySource
}

/** What stands in for a value that the request does not have. */
export type MissingRule = 'deny' | 'anonymous' | 'client'

export interface AuthorizeRules {
  readonly domain: string
  readonly descriptors: readonly (readonly EntryRule[])[]
  readonly cost: number
  readonly missing: MissingRule
  readonly form: AnswerForm
}

const KNOWN = ['domain', 'descriptor', 'cost', 'missing', 'deny', 'headers']
const MISSING_RULES = ['deny', 'anonymous', 'client'] as const
const DESCRIPTOR_FIX =
  'send entries such as tenant:header:x-tenant, ip:client, route:path:x-original-uri or plan:value:free, separated by commas'

/**
 * The rules of `query`; `usual` are the header fields without the parameter `headers`. Throws QUOTA_INVALID_INPUT.
 *
 * A gateway's configuration writes these, never its callers: whoever writes the query string chooses the limit.
 */
export function parseAuthorizeQuery(query: URLSearchParams, usual: HeaderChoice): AuthorizeRules {
  refuseUnknown(query, KNOWN)
  const domain = single(query, 'domain')
  if (domain === null || domain === '') {
    throw refuse('domain', 'is missing', 'send the domain of the policies, such as ?domain=api')
  }
  const descriptors = query.getAll('descriptor')
  if (descriptors.length === 0 || descriptors.length > DESCRIPTORS_MAX) {
    throw refuse('descriptor', `must be there 1 to ${DESCRIPTORS_MAX} times`, DESCRIPTOR_FIX)
  }
  return {
    domain,
    descriptors: descriptors.map(parseDescriptor),
    cost: parseCost(single(query, 'cost')),
    missing: parseMissing(single(query, 'missing')),
    form: {
      denialStatus: parseDenialStatus(single(query, 'deny')),
      headers: parseHeadersParameter(query, usual),
    },
  }
}

function parseDescriptor(text: string): readonly EntryRule[] {
  const entries = text.split(',')
  if (entries.length > ENTRIES_MAX) {
    throw refuse('descriptor', `has more than ${ENTRIES_MAX} entries`, DESCRIPTOR_FIX)
  }
  return entries.map(parseEntry)
}

function parseEntry(text: string): EntryRule {
  const [key = '', kind = '', ...rest] = text.split(':')
  const source = parseSource(kind, rest.join(':'))
  if (key !== '' && source !== null) return { key, source }
  throw refuse('descriptor', `has the entry "${text}", which cannot be read`, DESCRIPTOR_FIX)
}

function parseSource(kind: string, argument: string): EntrySource | null {
  switch (kind) {
    case 'header':
    case 'path':
      return /^[\w-]+$/.test(argument) ? { kind, name: argument.toLowerCase() } : null
    case 'client':
      return argument === '' ? { kind } : null
    case 'value':
      return argument === '' ? null : { kind, text: argument }
    default:
      return null
  }
}

function parseCost(text: string | null): number {
  if (text === null) return 1
  const cost = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (cost <= TOKENS_MAX) return cost
  throw refuse('cost', 'must be a whole number', `send 0 to ${TOKENS_MAX}, or leave it out`)
}

function parseMissing(text: string | null): MissingRule {
  const rule = MISSING_RULES.find((known) => known === (text ?? 'deny'))
  if (rule !== undefined) return rule
  throw refuse('missing', 'is not known', `send one of ${MISSING_RULES.join(', ')}`)
}

function parseDenialStatus(text: string | null): 403 | 429 {
  if (text === null || text === '429') return 429
  if (text === '403') return 403
  throw refuse('deny', 'must be 429 or 403', 'send deny=403 where the gateway knows only that')
}
