/** Brings a database to this version as its owner, for admins that connect as a role which owns nothing. */
import { sql } from 'kysely'
import { DatabaseError } from 'pg'
import { isQuotaError } from '../errors.ts'
import { createDatabase, type DatabaseOptions } from './client.ts'
import { migrateToLatest } from './migrator.ts'
import { prepareServiceRole, setServicePassword } from './service-role.ts'
import { databaseUser } from './settings.ts'
import type { Tables } from './tables.ts'

type Target = Pick<DatabaseOptions, 'url' | 'tls'>

export interface ServiceDatabase {
  /** As whom the schema is changed; it may make roles, or the service's is there already. */
  readonly owner: Target
  /** As whom admins connect: another role, which is made with the password of this URL. */
  readonly service: Target
  /** Folder of the migrations. */
  readonly migrations: string
}

const WRONG_PASSWORD = '28P01'

/**
 * Applies pending migrations as the owner, gives the service's role what admins need, and connects as it. Repeating it
 * is harmless, also by several at once. Resolves with the migrations that were applied.
 *
 * Throws QUOTA_DATABASE_UNAVAILABLE where one of the two cannot connect, QUOTA_INVALID_INPUT for a role that could change
 * the audit log, and what Postgres says otherwise.
 */
export async function prepareServiceDatabase(options: ServiceDatabase): Promise<readonly string[]> {
  const role = databaseUser(options.service.url)
  const db = open(options.owner)
  try {
    const applied = await migrateToLatest(db, options.migrations)
    await prepareServiceRole(db, role)
    await connectAs(options.service, () => setServicePassword(db, role))
    return applied
  } finally {
    await db.destroy()
  }
}

/** Only where it is another: an owner that may not change passwords can still migrate. */
async function connectAs(service: Target, setPassword: () => Promise<void>): Promise<void> {
  const db = open(service)
  const connect = async (): Promise<void> => void (await sql`select 1`.execute(db))
  try {
    await connect().catch(async (err: unknown) => {
      if (!isWrongPassword(err)) throw err
      await setPassword()
      await connect()
    })
  } finally {
    await db.destroy()
  }
}

function isWrongPassword(err: unknown): boolean {
  if (!isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')) return false
  return err.cause instanceof DatabaseError && err.cause.code === WRONG_PASSWORD
}

function open(target: Target) {
  return createDatabase<Tables>({ ...target, poolMax: 1, onIdleError: () => {} })
}
