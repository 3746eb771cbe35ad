import type { Selectable } from 'kysely'
import type { Db, Trx } from './plane.ts'
import type { TokensTable } from './tables.ts'

export interface StoredToken {
  readonly id: string
  readonly name: string
  readonly digest: Buffer
  readonly scopes: readonly string[]
  readonly domains: readonly string[] | null
  readonly createdAt: Date
  readonly createdBy: string
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  readonly lastUsedAt: Date | null
}

export type NewToken = Pick<
  StoredToken,
  'id' | 'name' | 'digest' | 'scopes' | 'domains' | 'createdBy' | 'expiresAt'
>

export async function insertToken(trx: Trx, token: NewToken): Promise<void> {
  await trx
    .insertInto('tokens')
    .values({
      id: token.id,
      name: token.name,
      digest: token.digest,
      scopes: [...token.scopes],
      domains: token.domains === null ? null : [...token.domains],
      created_by: token.createdBy,
      expires_at: token.expiresAt,
    })
    .execute()
}

export async function findToken(db: Db, id: string): Promise<StoredToken | null> {
  const row = await db.selectFrom('tokens').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toToken(row)
}

/** The token of that name which has not been revoked. */
export async function findTokenByName(db: Db, name: string): Promise<StoredToken | null> {
  const row = await db
    .selectFrom('tokens')
    .selectAll()
    .where('name', '=', name)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return row === undefined ? null : toToken(row)
}

/** Tokens that have not been revoked, by name; revoked ones too where asked for, newest last. */
export async function listTokens(
  db: Db,
  query: { readonly withRevoked: boolean; readonly limit: number },
): Promise<readonly StoredToken[]> {
  let select = db.selectFrom('tokens').selectAll()
  if (!query.withRevoked) select = select.where('revoked_at', 'is', null)
  const rows = await select.orderBy('name').orderBy('created_at').limit(query.limit).execute()
  return rows.map(toToken)
}

export async function countTokens(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('tokens')
    .where('revoked_at', 'is', null)
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function revokeToken(trx: Trx, id: string): Promise<void> {
  await trx
    .updateTable('tokens')
    .set({ revoked_at: new Date() })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .execute()
}

/** Notes when tokens were used last; an older time than the one stored changes nothing. */
export async function noteTokenUse(db: Db, uses: ReadonlyMap<string, Date>): Promise<void> {
  for (const [id, at] of uses) {
    await db
      .updateTable('tokens')
      .set({ last_used_at: at })
      .where('id', '=', id)
      .where((eb) => eb.or([eb('last_used_at', 'is', null), eb('last_used_at', '<', at)]))
      .execute()
  }
}

function toToken(row: Selectable<TokensTable>): StoredToken {
  return {
    id: row.id,
    name: row.name,
    digest: row.digest,
    scopes: row.scopes,
    domains: row.domains,
    createdAt: row.created_at,
    createdBy: row.created_by,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt: row.last_used_at,
  }
}
