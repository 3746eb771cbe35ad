/**
 * The role that admins serve as, apart from the one that owns the schema: it may add to the audit log and read it, and
 * neither change or remove an entry nor lift the trigger that forbids that to everyone, since it owns nothing.
 */
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { QuotaError } from '../errors.ts'
import type { Db, Trx } from './plane.ts'

export interface ServiceRole {
  readonly name: string
  /** Null where the server knows the role otherwise, such as by a certificate. */
  readonly password: string | null
}

/** Any number that nothing else locks; two that grant at once would fail over one another's changes. */
const GRANT_LOCK = 7_310_447_252_019

/** As many as Postgres takes by default. */
const SCRAM_ROUNDS = 4_096
const SCRAM_SALT_BYTES = 16
const SCRAM_KEY_BYTES = 32

/** Others would have to be normalised the way the server does it, and a password that differs only there never works. */
const PRINTABLE_ASCII = /^[\x20-\x7e]+$/

/**
 * Makes the role where it is not there, and gives it what admin needs of the schema, which must be this version's; `db`
 * is its owner's. All of it happens or nothing, so admins that run as the role meanwhile lose nothing.
 *
 * Throws QUOTA_INVALID_INPUT where the role could change the audit log all the same, as a superuser can, or a member of the
 * owner. Repeating it changes nothing; a password that the role has stays (`setServicePassword`).
 */
export async function prepareServiceRole(db: Db, role: ServiceRole): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${GRANT_LOCK}::bigint)`.execute(trx)
    const name = sql.id(role.name)
    const { rows } = await sql`select from pg_roles where rolname = ${role.name}`.execute(trx)
    if (rows.length === 0) await sql`create role ${name} login ${passwordOf(role)}`.execute(trx)
    for (const grant of [
      sql`grant usage on schema public to ${name}`,
      sql`grant select, insert, update, delete on all tables in schema public to ${name}`,
      sql`grant usage on all sequences in schema public to ${name}`,
      sql`revoke all on audit, kysely_migration, kysely_migration_lock from ${name}`,
      sql`grant select, insert on audit to ${name}`,
      // What was migrated, it reads at its start and does not say.
      sql`grant select on kysely_migration, kysely_migration_lock to ${name}`,
    ]) {
      await grant.execute(trx)
    }
    await refuseWhoMayChangeAudit(trx, role.name)
  })
}

/** Gives the role the password that it is to have. */
export async function setServicePassword(db: Db, role: ServiceRole): Promise<void> {
  await sql`alter role ${sql.id(role.name)} ${passwordOf(role)}`.execute(db)
}

/**
 * What it holds by another way than these grants: as a superuser, by a group, or since all may; as the owner of the schema
 * or of the database, who may drop tables of others; and before Postgres 16 as one who may make itself a member of any role.
 */
async function refuseWhoMayChangeAudit(trx: Trx, name: string): Promise<void> {
  const { rows } = await sql<{ owns: boolean; changes: boolean }>`
    select r.rolcreaterole or pg_has_role(r.oid, c.relowner, 'member')
        or pg_has_role(r.oid, n.nspowner, 'member') or pg_has_role(r.oid, d.datdba, 'member') as owns,
      has_table_privilege(r.oid, c.oid, 'update, delete, truncate') as changes
    from pg_roles r, pg_class c join pg_namespace n on n.oid = c.relnamespace, pg_database d
    where r.rolname = ${name} and c.oid = 'audit'::regclass and d.datname = current_database()`.execute(
    trx,
  )
  const [held] = rows
  if (held !== undefined && !held.owns && !held.changes) return
  const why =
    held?.owns === true
      ? 'is a superuser, makes roles, or owns it, its schema or its database'
      : 'was granted that elsewhere'
  throw new QuotaError(
    'QUOTA_INVALID_INPUT',
    `the role ${name} can change the audit log, since it ${why}; name a role of its own in DATABASE_URL`,
  )
}

/** As a verifier and not as it is: a server may log a statement, and always does where one fails. */
function passwordOf({ password }: ServiceRole) {
  return password === null ? sql`` : sql`password ${sql.lit(scramVerifier(password))}`
}

/** What a server that checks by SCRAM-SHA-256 (RFC 5802) keeps of a password. */
function scramVerifier(password: string): string {
  if (!PRINTABLE_ASCII.test(password)) {
    throw new QuotaError(
      'QUOTA_INVALID_INPUT',
      'the password in DATABASE_URL has other characters than printable ASCII; take letters and digits',
    )
  }
  const salt = randomBytes(SCRAM_SALT_BYTES)
  const salted = pbkdf2Sync(password, salt, SCRAM_ROUNDS, SCRAM_KEY_BYTES, 'sha256')
  const keyOf = (what: string): Buffer => createHmac('sha256', salted).update(what).digest()
  const stored = createHash('sha256').update(keyOf('Client Key')).digest('base64')
  const server = keyOf('Server Key').toString('base64')
  return `SCRAM-SHA-256$${SCRAM_ROUNDS}:${salt.toString('base64')}$${stored}:${server}`
}
