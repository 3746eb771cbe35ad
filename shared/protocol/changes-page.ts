/** Pages of policy changes: as much of them as fits into a message, and only what the one who asks knows. */
import type { Policy } from '../core/policy.ts'
import { QuotaError } from '../errors.ts'
import {
  beyondFormat,
  CHANGES_BYTES_MAX,
  type ChangesReply,
  POLICY_MESSAGES_VERSION,
  type PolicyChange,
} from './policy-messages.ts'

/** Changes with what else is told beside them. */
export interface ChangesRead extends Omit<ChangesReply, 'v' | 'next'> {
  readonly hasMore: boolean
}

/** As many of the changes as fit in a reply, and at least one, with where to go on. */
export function pageOf({ changes: found, hasMore, ...read }: ChangesRead): ChangesReply {
  const head = { v: POLICY_MESSAGES_VERSION, ...read } as const
  let bytes = Buffer.byteLength(JSON.stringify({ ...head, changes: [], next: read.revision }))
  const changes: PolicyChange[] = []
  for (const change of found) {
    bytes += Buffer.byteLength(textOf(change)) + 1
    if (bytes > CHANGES_BYTES_MAX && changes.length > 0) break
    changes.push(change)
  }
  const last = changes.at(-1)
  const isLast = last === undefined || (changes.length === found.length && !hasMore)
  return { ...head, changes, next: isLast ? null : revisionOf(last) }
}

/** The message of a page; a policy that was in an earlier one is not written as JSON again. */
export function encodePage({ changes, ...head }: ChangesReply): string {
  const rest = JSON.stringify(head)
  return `${rest.slice(0, -1)},"changes":[${changes.map(textOf).join(',')}]}`
}

/**
 * Throws QUOTA_INVALID_INPUT for a policy that says what a region of `format` would leave out without a word. It then
 * stays with the policies that it has, and tells why.
 */
export function requireKnown(changes: readonly PolicyChange[], format: number): void {
  for (const change of changes) {
    if (change.kind !== 'policy') continue
    const beyond = beyondFormat(change.policy, format)
    if (beyond === null) continue
    const { domain, name } = change.policy
    const message = `${domain}/${name} has ${beyond}, which this region's sync daemon does not know: upgrade it`
    throw new QuotaError('QUOTA_INVALID_INPUT', message)
  }
}

const texts = new WeakMap<Policy, string>()

function textOf(change: PolicyChange): string {
  if (change.kind === 'removed') return JSON.stringify(change)
  let text = texts.get(change.policy)
  if (text === undefined) {
    text = JSON.stringify(change.policy)
    texts.set(change.policy, text)
  }
  return `{"kind":"policy","policy":${text}}`
}

function revisionOf(change: PolicyChange): number {
  return change.kind === 'policy' ? change.policy.revision : change.revision
}
