import type { InputProblem } from '../../shared/errors.ts'
import { type PolicyReply, policyReplySchema } from '../../shared/protocol/admin-replies.ts'
import { DOMAIN_PATTERN, NAME_PATTERN, type PolicyInput } from '../../shared/protocol/policy.ts'
import { type AdminClient, parseReply } from './admin-client.ts'
import { CliError, EXIT } from './errors.ts'

export interface Applied {
  readonly domain: string
  readonly name: string
  readonly result: 'created' | 'updated' | 'unchanged'
  readonly revision: number
  /** What admin warned of; the policy is saved all the same. */
  readonly warnings: readonly InputProblem[]
}

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

/** Where admin keeps a policy. */
export function policyPath(domain: string, name: string): string {
  return `/v1/domains/${encodeURIComponent(domain)}/policies/${encodeURIComponent(name)}`
}

/**
 * Creates the policy, or replaces the version that was just read; admin keeps the revision when nothing differs.
 *
 * A change by someone else between reading and writing is refused by admin and told; nothing is overwritten.
 */
export async function applyPolicy(client: AdminClient, document: PolicyInput): Promise<Applied> {
  const { domain, name } = document
  const path = policyPath(domain, name)
  const found = await client.call({ method: 'GET', path, accepts: [404] })
  const before = found.status === 404 ? null : parsePolicy(found.body).revision
  const condition = before === null ? { 'if-none-match': '*' } : { 'if-match': `"${before}"` }
  const answer = await client.call({ method: 'PUT', path, body: document, headers: condition })
  const { revision, warnings } = parsePolicy(answer.body)
  const told = { domain, name, revision, warnings: warnings.map(problemOf) }
  if (before === null) return { ...told, result: 'created' }
  return { ...told, result: revision === before ? 'unchanged' : 'updated' }
}

function problemOf({
  field,
  message,
  fix,
}: {
  field: string
  message: string
  fix?: string | undefined
}): InputProblem {
  return { field, message, ...(fix !== undefined && { fix }) }
}

/** The policy that an answer of admin holds; rejects an answer of another shape. */
export function parsePolicy(body: unknown): PolicyReply {
  return parseReply(policyReplySchema, body)
}
