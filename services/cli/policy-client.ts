import type { InputProblem } from '../../shared/errors.ts'
import { type PolicyReply, policyReplySchema } from '../../shared/protocol/admin-replies.ts'
import type { PolicyInput } from '../../shared/protocol/policy.ts'
import { type AdminClient, parseReply } from './admin-client.ts'
import { policyPath } from './arguments.ts'

export interface Applied {
  readonly domain: string
  readonly name: string
  readonly result: 'created' | 'updated' | 'unchanged'
  readonly revision: number
  /** What admin warned of; the policy is saved all the same. */
  readonly warnings: readonly InputProblem[]
}

/**
 * Creates the policy, or replaces the version that was just read; admin keeps the revision when nothing differs.
 *
 * A change by someone else between reading and writing is refused by admin and told; nothing is overwritten.
 */
export async function applyPolicy(client: AdminClient, document: PolicyInput): Promise<Applied> {
  const { domain, name } = document
  const path = policyPath({ domain, name })
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
