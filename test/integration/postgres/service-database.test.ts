import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runProgram } from '../../../services/cli/program.ts'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { migrateToLatest } from '../../../shared/postgres/migrator.ts'
import { prepareServiceDatabase } from '../../../shared/postgres/service-database.ts'
import type { Tables } from '../../../shared/postgres/tables.ts'
import { POSTGRES_USER, type PostgresServer, startPostgres } from '../../support/postgres-server.ts'
import { ioWith } from '../../unit/cli/fake-io.ts'

/** A server that asks this role alone for its password, and logs every statement. */
const ROLE = 'service "of" admins'
const RULES = `local all "${ROLE.replaceAll('"', '""')}" scram-sha-256\nlocal all all trust\n`

let postgres: PostgresServer
let ownerUrl: string
let folder: string

const as = (name: string, password = ''): string =>
  ownerUrl.replace(`${POSTGRES_USER}@`, `${encodeURIComponent(name)}:${password}@`)
const open = (url: string) => createDatabase<Tables>({ url, poolMax: 1, onIdleError: () => {} })

async function execute(url: string, statement: string): Promise<void> {
  const db = open(url)
  await sql
    .raw(statement)
    .execute(db)
    .finally(() => db.destroy())
}
const prepare = (serviceUrl: string) =>
  prepareServiceDatabase({
    owner: { url: ownerUrl },
    service: { url: serviceUrl },
    migrations: 'migrations',
  })

async function migrate(env: Record<string, string>) {
  const io = ioWith({ env })
  const exitCode = await runProgram(['admin', 'migrate'], io)
  return { exitCode, ...io.written }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'quotaplane-service-'))
  postgres = await startPostgres(undefined, ['log_statement=all'])
  ownerUrl = postgres.urlOf('postgres')
  await writeFile(join(postgres.socketFolder, 'data/pg_hba.conf'), RULES)
  await execute(ownerUrl, 'select pg_reload_conf()')
})
afterAll(async () => {
  await postgres.stop()
  await rm(folder, { recursive: true })
})

describe('a database that is prepared for the role of admins', () => {
  it('is migrated once by two at once, who both can connect as the role then', async () => {
    const [one, other] = await Promise.all([prepare(as(ROLE, 'first')), prepare(as(ROLE, 'first'))])
    expect([...one, ...other].length).toBeGreaterThan(10)
    expect(Math.min(one.length, other.length)).toBe(0)
    expect(await prepare(as(ROLE, 'first'))).toEqual([])
  })

  it('takes the password that the URL has now, and writes none into the log of the server', async () => {
    const url = as(ROLE, 'sec%20ond~%27')
    await expect(execute(url, 'select 1')).rejects.toMatchObject({ cause: { code: '28P01' } })
    await prepare(url)
    await execute(url, 'select 1')
    await expect(execute(as(ROLE, 'first'), 'select 1')).rejects.toThrow()
    expect(postgres.log()).toContain('SCRAM-SHA-256$')
    expect(postgres.log()).not.toMatch(/sec ond|'first'/)
    await expect(prepare(as(ROLE, 'p%C3%A4ss'))).rejects.toThrow('printable ASCII')
  })

  it('lets the role say neither what was migrated, nor migrate: a later version says what to do', async () => {
    const url = as(ROLE, 'sec%20ond~%27')
    for (const forbidden of ['delete from kysely_migration', 'create table a (b int)']) {
      await expect(execute(url, forbidden)).rejects.toThrow('permission denied')
    }
    const db = open(url)
    expect(await migrateToLatest(db, 'migrations')).toEqual([])
    const names = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
    for (const { name } of names.rows) {
      const text = await readFile(join('migrations', `${name}.sql`))
      await writeFile(join(folder, `${name}.sql`), text)
    }
    await writeFile(join(folder, '9999_later.sql'), 'alter table policies add column later text')
    await expect(migrateToLatest(db, folder)).rejects.toThrow(
      'run `quotaplane admin migrate` first',
    )
    await db.destroy()
  })

  it('refuses a role that could change the audit log by another way, and gives it nothing', async () => {
    for (const [role, made] of [
      ['mighty', 'create role mighty login superuser'],
      ['maker', 'create role maker login createrole'],
      ['landlord', 'create role landlord login; alter schema public owner to landlord'],
      ['host', 'create role host login; alter database postgres owner to host'],
    ] as const) {
      await execute(ownerUrl, made)
      await expect(prepare(as(role)), role).rejects.toThrow('is a superuser, makes roles, or owns')
    }
    await execute(
      ownerUrl,
      `alter schema public owner to ${POSTGRES_USER}; alter database postgres owner to ${POSTGRES_USER}`,
    )
    await execute(
      ownerUrl,
      'create role editors; grant delete on audit to editors; create role member login in role editors',
    )
    await expect(prepare(as('member'))).rejects.toThrow('was granted that elsewhere')
    await expect(execute(as('member'), 'select from policies')).rejects.toThrow('permission denied')
  })
})

describe('quotaplane admin migrate', () => {
  it('says what it did, and takes the URLs from files too', async () => {
    const path = join(folder, 'owner-url')
    await writeFile(path, `${ownerUrl}\n`)
    const done = await migrate({
      DATABASE_MIGRATION_URL_FILE: path,
      DATABASE_URL: as(ROLE, 'third'),
    })
    expect(done).toMatchObject({ exitCode: 0, out: '' })
    expect(done.err).toContain(`the schema is of this version; admins can connect as ${ROLE}`)
  })

  it('names the variable that is missing, or makes admins the owner', async () => {
    expect(await migrate({})).toMatchObject({
      exitCode: 2,
      err: expect.stringMatching(/DATABASE_MIGRATION_URL: missing.*\n +DATABASE_URL: missing/),
    })
    expect(
      await migrate({ DATABASE_MIGRATION_URL: ownerUrl, DATABASE_URL: ownerUrl }),
    ).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining('DATABASE_URL: must name another role'),
    })
    const nobody = ownerUrl.replace(`${POSTGRES_USER}@`, '')
    expect(await migrate({ DATABASE_MIGRATION_URL: ownerUrl, DATABASE_URL: nobody })).toMatchObject(
      {
        exitCode: 2,
        err: expect.stringContaining('DATABASE_URL: must name the role'),
      },
    )
    const several = { DATABASE_MIGRATION_URL: `${ownerUrl}&target_session_attrs=any` }
    expect(await migrate({ ...several, DATABASE_URL: as(ROLE, 'third') })).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining('DATABASE_MIGRATION_URL: must have target_session_attrs'),
    })
    const wrong = { DATABASE_MIGRATION_URL: as('nobody-there'), DATABASE_URL: as(ROLE, 'third') }
    expect(await migrate(wrong)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('role "nobody-there" does not exist'),
    })
  })
})
