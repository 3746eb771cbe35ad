import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Kysely, type Migration, Migrator, sql } from 'kysely'
import { DatabaseError } from 'pg'

const MIGRATION_FILE = /^\d{4}_[a-z0-9_]+\.sql$/
const INSUFFICIENT_PRIVILEGE = '42501'

/**
 * Applies every pending `NNNN_name.sql` of `folder`, all in one transaction, and gives their names.
 *
 * Safe when several processes start at once: Kysely takes an advisory lock. Throws if one fails, and then
 * none is applied; for want of a right, as a role that does not own the schema lacks it, with what to do.
 */
export async function migrateToLatest<Tables>(
  db: Kysely<Tables>,
  folder: string,
): Promise<readonly string[]> {
  const migrator = new Migrator({ db, provider: { getMigrations: () => readMigrations(folder) } })
  const { error, results = [] } = await migrator.migrateToLatest()
  if (error instanceof DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) {
    throw new Error(
      'the schema is of an earlier version, and this role may not change it: run `quotaplane admin migrate` first, with the URL of its owner in DATABASE_MIGRATION_URL',
      { cause: error },
    )
  }
  if (error !== undefined) throw error
  return results.map((result) => result.migrationName)
}

async function readMigrations(folder: string): Promise<Record<string, Migration>> {
  const files = (await readdir(folder)).filter((file) => MIGRATION_FILE.test(file))
  return Object.fromEntries(
    files.map((file) => [file.slice(0, -'.sql'.length), sqlMigration(join(folder, file))]),
  )
}

function sqlMigration(path: string): Migration {
  return {
    async up(db) {
      await sql.raw(await readFile(path, 'utf8')).execute(db)
    },
  }
}
