import { QuotaError } from '../../shared/errors.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'

/** Under which state of the resource a change may happen. */
export type Precondition =
  | { readonly kind: 'absent' }
  /** As `absent`, of a request whose method says so rather than a header. */
  | { readonly kind: 'new' }
  | { readonly kind: 'present' }
  | { readonly kind: 'revision'; readonly revisions: readonly number[] }

export interface ConditionalHeaders {
  readonly 'if-match'?: string | undefined
  readonly 'if-none-match'?: string | undefined
}

const ENTITY_TAG = /^(W\/)?"([^"]*)"$/

export function entityTag(revision: number): string {
  return `"${revision}"`
}

/** The condition that the headers state; null when they state none. */
export function preconditionOf(headers: ConditionalHeaders): Precondition | null {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match !== undefined && noneMatch !== undefined) {
    throw invalidHeader('if-none-match', 'was sent together with If-Match', 'send one of the two')
  }
  if (noneMatch !== undefined) {
    if (noneMatch.trim() === '*') return { kind: 'absent' }
    throw invalidHeader('if-none-match', 'must be * for a change', 'send If-None-Match: *')
  }
  if (match === undefined) return null
  if (match.trim() === '*') return { kind: 'present' }
  return { kind: 'revision', revisions: strongTags(match, 'if-match') }
}

/** The condition that `ifMatch` of a document states, which stands at `field` of the request; null when it states none. */
export function preconditionAt(field: string, ifMatch: string | undefined): Precondition | null {
  if (ifMatch === undefined) return null
  if (ifMatch.trim() === '*') return { kind: 'present' }
  return { kind: 'revision', revisions: strongTags(ifMatch, field) }
}

/** True when a GET's If-None-Match names the present revision, so the reader has it already. */
export function isNotModified(header: string | undefined, revision: number): boolean {
  if (header === undefined) return false
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(entityTag(revision))
}

/**
 * Throws QUOTA_REVISION_CONFLICT unless the resource is in the state that `precondition` asks for; `field` is where it is
 * asked for, of one among many.
 */
export function checkPrecondition(
  precondition: Precondition,
  what: string,
  present: { readonly revision: number } | null,
  field?: string,
): void {
  if (precondition.kind === 'new') {
    if (present === null) return
    throw new QuotaError('QUOTA_ALREADY_EXISTS', `${what} exists already: PUT replaces it`)
  }
  const conflict = conflictOf(precondition, present)
  if (conflict === null) return
  const problems = field === undefined ? [] : [{ field, message: `${what} ${conflict}` }]
  throw new QuotaError('QUOTA_REVISION_CONFLICT', `${what} ${conflict}`, { problems })
}

export function preconditionRequired(detail: string): QuotaError {
  return new QuotaError('QUOTA_PRECONDITION_REQUIRED', detail)
}

function conflictOf(
  precondition: Exclude<Precondition, { kind: 'new' }>,
  present: { readonly revision: number } | null,
): string | null {
  if (precondition.kind === 'absent') {
    return present === null
      ? null
      : `exists already, at revision ${present.revision}: read it and send If-Match: "${present.revision}"`
  }
  if (present === null) return 'does not exist: send If-None-Match: * to create it'
  if (precondition.kind === 'present' || precondition.revisions.includes(present.revision)) {
    return null
  }
  return `is at revision ${present.revision}: read it again and repeat the change on that`
}

/** Weak tags never match where a change is at stake (RFC 9110, 13.1.1), so they are left out. */
function strongTags(header: string, field: string): readonly number[] {
  return header.split(',').flatMap((part) => {
    const tag = ENTITY_TAG.exec(part.trim())
    if (tag === null) {
      throw invalidHeader(
        field,
        `${part.trim().slice(0, 60)} is not an entity tag`,
        'send the ETag of a GET as it is, quotes included',
      )
    }
    return tag[1] === undefined && /^\d+$/.test(tag[2] ?? '') ? [Number(tag[2])] : []
  })
}

function invalidHeader(field: string, message: string, fix: string): QuotaError {
  return invalidInput([{ field, message, fix }])
}
