/** What operators name on the command line, parsed in one place: policies, domains, regions, and lists of parts. */
import { InvalidArgumentError } from 'commander'
import {
  DOMAIN_FIX,
  DOMAIN_PATTERN,
  NAME_FIX,
  NAME_PATTERN,
} from '../../shared/protocol/policy-fields.ts'
import { parseLabels } from '../../shared/protocol/policy-labels.ts'
import { REGION_PATTERN } from '../../shared/protocol/subjects.ts'
import { CliError, EXIT } from './errors.ts'

export interface PolicyId {
  readonly domain: string
  readonly name: string
}

/** The policy that a person named as `domain/name`. */
export function parsePolicyId(id: string): PolicyId {
  const [domain = '', name = '', ...rest] = id.split('/')
  if (rest.length > 0 || !DOMAIN_PATTERN.test(domain) || !NAME_PATTERN.test(name)) {
    throw new CliError(
      `a policy is named domain/name, such as api/per-tenant, not "${id}"`,
      EXIT.usage,
    )
  }
  return { domain, name }
}

/** The domain that a person named. */
export function domainOf(text: string): string {
  if (DOMAIN_PATTERN.test(text)) return text
  throw new CliError(`"${text}" is not the name of a domain: ${DOMAIN_FIX}`, EXIT.usage)
}

/** The same list, of one domain where one was named; admin shows those that are limited to it nothing else. */
export function ofDomain(
  path: string,
  { domain }: { readonly domain?: string | undefined },
): string {
  if (domain === undefined) return path
  return `${path}${path.includes('?') ? '&' : '?'}domain=${encodeURIComponent(domainOf(domain))}`
}

/** Where admin keeps a policy. */
export function policyPath({ domain, name }: PolicyId): string {
  return `/v1/domains/${encodeURIComponent(domain)}/policies/${encodeURIComponent(name)}`
}

/** Where admin keeps what a policy has for the tenant of this value. */
export function overridePath(policy: string, value: string): string {
  return `${policyPath(parsePolicyId(policy))}/overrides/${encodeURIComponent(value)}`
}

/** Where admin keeps a region. */
export function regionPath(id: string): string {
  if (REGION_PATTERN.test(id)) return `/v1/regions/${id}`
  throw new CliError(`"${id}" is not a region name: ${NAME_FIX}`, EXIT.usage)
}

/** Parser of an option: `key=value,key=value`. */
export function labelsOf(text: string): Readonly<Record<string, string>> {
  const labels = parseLabels(text)
  if (labels !== null) return labels
  throw new InvalidArgumentError('It must be written as key=value,key=value.')
}

/** Parser of an option: `region=percent,region=percent`; admin says whether they make a split. */
export function splitOf(text: string): Readonly<Record<string, number>> {
  const parts = text.split(',').map((part) => /^([^=]+)=(\d+(?:\.\d+)?)$/.exec(part.trim()))
  const split = parts.flatMap((part): readonly (readonly [string, number])[] =>
    part === null ? [] : [[part[1] ?? '', Number(part[2])]],
  )
  if (split.length === parts.length) return Object.fromEntries(split)
  throw new InvalidArgumentError('It must be written as region=percent,region=percent.')
}

/** Numbers of single limits. */
export type NumbersByLimit = Readonly<
  Record<string, { readonly capacity: number; readonly burst?: number }>
>

/** Parser of an option that may be repeated: `limit=tokens` or `limit=tokens:burst`. */
export function numbersOf(text: string, before: NumbersByLimit = {}): NumbersByLimit {
  const [, limit, capacity, burst] = /^([^=]+)=(\d+)(?::(\d+))?$/.exec(text) ?? []
  if (limit === undefined) {
    throw new InvalidArgumentError('It must be written as limit=tokens or limit=tokens:burst.')
  }
  const numbers = {
    capacity: Number(capacity),
    ...(burst !== undefined && { burst: Number(burst) }),
  }
  return { ...before, [limit]: numbers }
}

/** Parser of an option: words separated by commas. */
export function commaList(text: string): readonly string[] {
  const words = text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  if (words.length > 0) return words
  throw new InvalidArgumentError('It must name at least one, separated by commas.')
}
