/** Tokens that may ask enforcers for checks, for the regions. */
import { sql } from 'kysely'
import type { TokensPage } from '../protocol/token-messages.ts'
import type { Db } from './plane.ts'

/** The scopes of which a token needs one; `quota:admin` includes the others. */
const MAY_CHECK = sql<boolean>`scopes && array['quota:check', 'quota:admin']`

/**
 * Differs whenever the tokens for checks do: tokens are made and revoked and never deleted, so their number and the last
 * instant of each say so, also after another Postgres took the place of this one. What expires changes it not: regions
 * know when that is.
 */
export async function readTokensMark(db: Db): Promise<string> {
  const { mark } = await db
    .selectFrom('tokens')
    .where(MAY_CHECK)
    .select(
      sql<string>`concat_ws('.', count(*), count(revoked_at),
        coalesce(floor(extract(epoch from max(created_at)) * 1000000)::bigint, 0),
        coalesce(floor(extract(epoch from max(revoked_at)) * 1000000)::bigint, 0))`.as('mark'),
    )
    .executeTakeFirstOrThrow()
  return mark
}

/**
 * At most `limit` tokens with an id after `after` that have not been revoked. The mark is read before them, so it is
 * never of a later state than they are.
 */
export async function readCheckTokens(
  db: Db,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<TokensPage> {
  const { asOfMs } = await db
    .selectNoFrom(
      sql<number>`floor(extract(epoch from clock_timestamp()) * 1000)::float8`.as('asOfMs'),
    )
    .executeTakeFirstOrThrow()
  const mark = await readTokensMark(db)
  const rows = await db
    .selectFrom('tokens')
    .select(['id', 'digest', 'domains', 'expires_at'])
    .where(MAY_CHECK)
    .where('revoked_at', 'is', null)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit + 1)
    .execute()
  const items = rows.slice(0, limit).map(({ id, digest, domains, expires_at }) => ({
    id,
    digest: digest.toString('base64url'),
    domains,
    expiresAtMs: expires_at?.getTime() ?? null,
  }))
  return { mark, asOfMs, items, next: rows.length > limit ? (items.at(-1)?.id ?? null) : null }
}
