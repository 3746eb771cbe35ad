import { join } from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import { isQuotaError } from '../../../shared/errors.ts'
import { prepareServiceDatabase } from '../../../shared/postgres/service-database.ts'
import { databaseTarget, databaseUser, migrationEnv } from '../../../shared/postgres/settings.ts'
import { PACKAGE_ROOT } from '../../../shared/runtime/assets.ts'
import { readEnv } from '../../../shared/runtime/env.ts'
import { CliError, EXIT } from '../errors.ts'
import { type Io, say } from '../io.ts'
import { printJson, withExamples } from './common.ts'

const flagsSchema = z.object({ json: z.boolean().default(false) })

/**
 * Adds `quotaplane admin migrate`. It takes URLs from the environment alone, and from files: they hold passwords, and
 * arguments can be seen by every user of a machine.
 */
export function addMigrateCommand(admin: Command, io: Io): void {
  const command = admin
    .command('migrate')
    .description(
      'bring the database to this version as its owner (DATABASE_MIGRATION_URL), and make the role of DATABASE_URL, as which admins can do their work and not change the audit log',
    )
    .option('--json', 'print JSON on one line')
    .action(async (options: unknown) => {
      const flags = flagsSchema.parse(options)
      const config = readConfig(io)
      const { DATABASE_MIGRATION_URL: ownerUrl, ...service } = config
      const { name: role } = databaseUser(config.DATABASE_URL)
      const applied = await prepareServiceDatabase({
        owner: databaseTarget({ ...service, DATABASE_URL: ownerUrl }),
        service: databaseTarget(service),
        migrations: join(PACKAGE_ROOT, 'migrations'),
      }).catch((err: unknown) => {
        throw databaseFailure(err)
      })
      if (flags.json) printJson(io, { applied, role })
      else {
        const done = applied.length === 0 ? 'the schema is of this version' : applied.join(', ')
        say(io.err, `${done}; admins can connect as ${role}`)
      }
    })
  withExamples(command, [
    'DATABASE_MIGRATION_URL_FILE=owner-url DATABASE_URL_FILE=admin-url quotaplane admin migrate',
  ])
}

/** What a person can do about a database that refuses or does not answer. */
export function databaseFailure(err: unknown): unknown {
  if (isQuotaError(err, 'QUOTA_INVALID_INPUT')) return new CliError(err.message)
  if (!isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')) return err
  const cause = err.cause instanceof Error ? err.cause.message : err.message
  return new CliError(`Postgres does not answer (${cause}): is the URL right?`)
}

function readConfig(io: Io) {
  try {
    return readEnv(migrationEnv, io.env)
  } catch (err) {
    throw new CliError(err instanceof Error ? err.message : String(err), EXIT.usage)
  }
}
