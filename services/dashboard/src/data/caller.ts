import type { Scope } from '../../../../shared/protocol/tokens.ts'

/** Whose the token is, and what it may do. */
export interface Caller {
  readonly actor: string
  readonly scopes: readonly Scope[]
  /** Null: every domain. */
  readonly domains: readonly string[] | null
}

/** Why the caller may not do what needs `scope`, and what would help; null when it may. */
export function refusalFor(caller: Caller, scope: Scope): string | null {
  if (caller.scopes.includes('quota:admin') || caller.scopes.includes(scope)) return null
  return `This needs the scope ${scope}; your token has ${caller.scopes.join(', ') || 'none'}. Sign in with a token that has it: quotaplane token create NAME --scope ${scope}`
}
