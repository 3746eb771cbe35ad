import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Kysely, type Migration, Migrator, sql } from 'kysely'

const MIGRATION_FILE = /^\d{4}_[a-z0-9_]+\.sql$/

/**
 * Applies every pending `NNNN_name.sql` of `folder`, all in one transaction, and gives their names.
 *
 * Safe when several processes start at once: Kysely takes an advisory lock. Throws if one fails, and then
 * none is applied.
 */
export async function migrateToLatest<Tables>(
  db: Kysely<Tables>,
  folder: string,
): Promise<readonly string[]> {
  const migrator = new Migrator({ db, provider: { getMigrations: () => readMigrations(folder) } })
  const { error, results = [] } = await migrator.migrateToLatest()
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
