import { readdir } from 'node:fs/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { migrateToLatest } from '../../../shared/postgres/migrator.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(async () => await postgres.stop())

const connect = (database: string) =>
  createDatabase<unknown>({ url: postgres.urlOf(database), onIdleError: () => {} })

describe('the migrator', () => {
  it('applies each migration once when three processes start together', async () => {
    const dbs = [1, 2, 3].map(() => connect('postgres'))
    const applied = await Promise.all(dbs.map((db) => migrateToLatest(db, 'migrations')))
    const files = (await readdir('migrations')).sort()
    expect(applied.flat().map((name) => `${name}.sql`)).toEqual(files)
    await Promise.all(dbs.map((db) => db.destroy()))
  })

  it('has one order of migrations, each with a number of its own since 0013', async () => {
    const files = await readdir('migrations')
    for (const file of files) expect(file).toMatch(/^\d{4}_[a-z0-9_]+\.sql$/)
    const numbers = files.map((file) => Number(file.slice(0, 4)))
    // Two were released under 0010: they are told apart by their names, which never change.
    const late = numbers.filter((number) => number >= 13)
    expect(new Set(late).size).toBe(late.length)
    expect([...new Set(numbers)].toSorted((one, other) => one - other)).toEqual(
      Array.from({ length: Math.max(...numbers) }, (_, index) => index + 1),
    )
    // By code points, as Kysely applies them: a file that sorts before one that was applied is never applied.
    const order = files.toSorted()
    expect(order.slice(9, 11)).toEqual(['0010_labels.sql', '0010_usage_history.sql'])
    expect(order.map((file) => Number(file.slice(0, 4)))).toEqual(
      numbers.toSorted((one, other) => one - other),
    )
  })

  it('makes the schema that reviewers see in schema.txt', async () => {
    const db = connect('postgres')
    const columns = await sql<{ line: string }>`
      select table_name || '.' || column_name || ' ' || data_type
        || case is_nullable when 'NO' then ' not null' else '' end
        || case is_identity when 'YES' then ' identity ' || identity_generation else '' end as line
      from information_schema.columns
      where table_schema = 'public' and table_name not like 'kysely%'`.execute(db)
    const constraints = await sql<{ line: string }>`
      select conrelid::regclass || ': ' || conname as line
      from pg_constraint
      where connamespace = 'public'::regnamespace and contype in ('c', 'f', 'p', 'u')
        and conrelid::regclass::text not like 'kysely%'`.execute(db)
    const lines = [...columns.rows, ...constraints.rows].map((row) => row.line).sort()
    await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('./schema.txt')
    await db.destroy()
  })
})
