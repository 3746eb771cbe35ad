import type { Scope } from '../../../../shared/protocol/tokens.ts'

/** Whose the token is, and what it may do. */
export interface Caller {
  readonly actor: string
  readonly scopes: readonly Scope[]
  /** Null: every domain. */
  readonly domains: readonly string[] | null
}

/** How whoever may make tokens makes one with `scope`. */
export function tokenCommand(scope: Scope): string {
  return `quotaplane token create NAME --scopes ${scope}`
}

/** What is needed to do something: a scope, and for what is of the whole plane a token that is limited to no domains. */
export interface Needs {
  readonly scope: Scope
  readonly isOfPlane?: boolean
}

/** Why the caller may not do what needs that, and what would help; null when it may. */
export function refusalFor(caller: Caller, { scope, isOfPlane = false }: Needs): string | null {
  if (!caller.scopes.includes('quota:admin') && !caller.scopes.includes(scope)) {
    return `This needs the scope ${scope}; your token has ${caller.scopes.join(', ') || 'none'}. Sign in with a token that has it: ${tokenCommand(scope)}`
  }
  if (!isOfPlane || caller.domains === null) return null
  return `This changes every domain; your token is limited to ${caller.domains.join(', ')}. Sign in with a token that is limited to none: ${tokenCommand(scope)}`
}
