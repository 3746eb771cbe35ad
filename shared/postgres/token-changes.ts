import { QuotaError } from '../errors.ts'
import { newToken } from '../protocol/token-format.ts'
import { recordAudit } from './audit.ts'
import { type Db, inTransaction, lockPlane, type Trx } from './plane.ts'
import type { PlaneContext } from './plane-change.ts'
import {
  countTokens,
  findToken,
  findTokenByName,
  insertToken,
  revokeToken as revokeStoredToken,
  type StoredToken,
} from './tokens.ts'

/** Tokens of a plane that work at once; people and programs have one each. */
export const TOKENS_MAX = 1_000

export interface TokenRequest {
  readonly name: string
  readonly scopes: readonly string[]
  readonly domains: readonly string[] | null
  readonly expiresAt: Date | null
}

export interface CreatedToken {
  readonly row: StoredToken
  /** The only time that it is seen whole. */
  readonly token: string
}

/** Makes a token; QUOTA_ALREADY_EXISTS while one of that name works. */
export async function createToken(
  db: Db,
  request: TokenRequest,
  context: PlaneContext,
): Promise<CreatedToken> {
  return await inTransaction(context.scope?.trx ?? db, async (trx) => {
    await lockPlane(trx)
    if ((await findTokenByName(trx, request.name)) !== null) {
      const message = `a token named ${request.name} exists already: revoke it first, or take another name`
      throw new QuotaError('QUOTA_ALREADY_EXISTS', message)
    }
    if ((await countTokens(trx)) >= TOKENS_MAX) {
      throw new QuotaError('QUOTA_IN_USE', `a plane has at most ${TOKENS_MAX} tokens: revoke some`)
    }
    const { id, digest, token } = newToken()
    const scopes = [...new Set(request.scopes)].sort()
    await insertToken(trx, { ...request, scopes, id, digest, createdBy: context.actor })
    const row = await requireToken(trx, id)
    await record(trx, context, { action: 'token.create', before: null, after: row })
    return { row, token }
  })
}

/** Revokes a token for good; repeating it changes nothing. */
export async function revokeToken(db: Db, id: string, context: PlaneContext): Promise<StoredToken> {
  return await inTransaction(context.scope?.trx ?? db, async (trx) => {
    await lockPlane(trx)
    const before = await requireToken(trx, id)
    if (before.revokedAt !== null) return before
    await revokeStoredToken(trx, id)
    const after = await requireToken(trx, id)
    await record(trx, context, { action: 'token.revoke', before, after })
    return after
  })
}

export async function requireToken(db: Db, id: string): Promise<StoredToken> {
  const token = await findToken(db, id)
  if (token !== null) return token
  throw new QuotaError('QUOTA_TOKEN_NOT_FOUND', `there is no token ${id}`)
}

interface TokenChange {
  readonly action: 'token.create' | 'token.revoke'
  readonly before: StoredToken | null
  readonly after: StoredToken
}

async function record(
  trx: Trx,
  context: PlaneContext,
  { action, before, after }: TokenChange,
): Promise<void> {
  const [objectKind, objectId] = ['token', after.name] as const
  const audited = { before: before && auditedOf(before), after: auditedOf(after) }
  await recordAudit(trx, context, { action, objectKind, objectId, ...audited })
  context.scope?.besides?.push({
    kind: objectKind,
    id: objectId,
    before: before && plannedOf(before),
    after: plannedOf(after),
  })
}

/** In a plan: without what would be another if it were carried out. */
function plannedOf({ name, scopes, domains, expiresAt, revokedAt }: StoredToken): unknown {
  const expires = expiresAt?.toISOString() ?? null
  return { name, scopes, domains, expiresAt: expires, isRevoked: revokedAt !== null }
}

/** Never the digest: the audit log is read by people who may not use the token. */
function auditedOf({ id, name, scopes, domains, expiresAt, revokedAt }: StoredToken): unknown {
  return { id, name, scopes, domains, expiresAt, revokedAt }
}
