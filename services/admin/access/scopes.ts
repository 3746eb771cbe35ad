import { SCOPES, type Scope } from '../../../shared/protocol/tokens.ts'

export type { Scope }

/** Who sends a request. `domains` null: every domain. */
export interface Caller {
  /** What the audit log names. */
  readonly actor: string
  readonly scopes: readonly Scope[]
  readonly domains: readonly string[] | null
}

export function hasScope(caller: Caller, scope: Scope): boolean {
  return caller.scopes.includes('quota:admin') || caller.scopes.includes(scope)
}

export function isScope(text: string): text is Scope {
  return SCOPES.some((scope) => scope === text)
}
