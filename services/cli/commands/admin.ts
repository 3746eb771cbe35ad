import { join } from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { migrateToLatest } from '../../../shared/postgres/migrator.ts'
import type { Tables } from '../../../shared/postgres/tables.ts'
import { createToken } from '../../../shared/postgres/token-changes.ts'
import { countTokens } from '../../../shared/postgres/tokens.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { addMigrateCommand, databaseFailure } from './admin-migrate.ts'
import { printJson, printLines, withExamples } from './common.ts'

const initFlags = z.object({
  databaseUrl: z.string().optional(),
  name: z.string(),
  json: z.boolean().default(false),
})

const CONTEXT = {
  actor: 'cli:admin-init',
  requestId: 'admin-init',
  reason: 'first token of the plane',
}

/** Adds `quotaplane admin init` and `admin migrate`. */
export function addAdminCommand(program: Command, io: Io): void {
  const admin = program.command('admin').description('set a plane up from its database')
  const command = admin
    .command('init')
    .description('prepare the database and make the first token; it is printed this once')
    .option('--database-url <url>', 'Postgres of the plane (env DATABASE_URL)')
    .option('--name <name>', 'what the audit log calls the token', 'root')
    .option('--json', 'print JSON on one line')
    .action(async (options: unknown) => {
      const flags = initFlags.parse(options)
      const url = flags.databaseUrl ?? io.env['DATABASE_URL'] ?? ''
      if (!/^postgres(ql)?:\/\//.test(url)) {
        throw new CliError(
          'give --database-url or set DATABASE_URL to a postgresql:// URL',
          EXIT.usage,
        )
      }
      const { id, token } = await firstToken(url, flags.name)
      if (flags.json) {
        printJson(io, { id, name: flags.name, token })
        return
      }
      say(io.err, `token ${flags.name} (${id}) has every scope; keep it, it is not shown again:`)
      printLines(io, [token])
    })
  addMigrateCommand(admin, io)
  withExamples(command, [
    'quotaplane admin init --database-url postgresql://quotaplane@db/quotaplane',
    'export QUOTAPLANE_TOKEN=$(quotaplane admin init) QUOTAPLANE_URL=http://admin:7070',
  ])
}

/** Only while the plane has no token: whoever can reach the database later must not mint more in silence. */
async function firstToken(url: string, name: string): Promise<{ id: string; token: string }> {
  const db = createDatabase<Tables>({ url, onIdleError: () => {} })
  try {
    await migrateToLatest(db, join(PACKAGE_ROOT, 'migrations'))
    if ((await countTokens(db)) > 0) {
      throw new CliError('the plane has tokens already: make more with quotaplane token create')
    }
    const request = { name, scopes: ['quota:admin'], domains: null, expiresAt: null }
    const { row, token } = await createToken(db, request, CONTEXT)
    return { id: row.id, token }
  } catch (err) {
    throw databaseFailure(err)
  } finally {
    await db.destroy()
  }
}
