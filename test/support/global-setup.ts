import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { createDatabase } from '../../shared/postgres/client.ts'
import { migrateToLatest } from '../../shared/postgres/migrator.ts'
import { type PostgresServer, startPostgres } from './postgres-server.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Unix socket that gives each caller a database of its own; see test-database.ts. */
    databaseBroker: string
  }
}

const TEMPLATE = 'quota_template'

/**
 * One PostgreSQL for the whole run, started when the first test file asks for a database, so that a run
 * without one pays nothing. Each asker gets a clone of a migrated template, which takes tens of milliseconds.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'quota-broker-'))
  const path = join(folder, 'broker.sock')
  let starting: Promise<PostgresServer> | undefined
  let cloning: Promise<unknown> = Promise.resolve()
  let clones = 0

  const answer = async (socket: Socket): Promise<void> => {
    starting ??= startWithTemplate()
    const postgres = await starting
    const database = `quota_${++clones}`
    const clone = cloning.then(() =>
      execute(postgres, `create database ${database} template ${TEMPLATE}`),
    )
    cloning = clone.catch(() => {})
    await clone
    socket.end(postgres.urlOf(database))
  }
  const broker = createServer((socket) => {
    answer(socket).catch((err: Error) => socket.end(`error ${err.message}`))
  })
  broker.listen(path)
  await once(broker, 'listening')
  project.provide('databaseBroker', path)

  return async () => {
    broker.close()
    await (await starting)?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function startWithTemplate(): Promise<PostgresServer> {
  const postgres = await startPostgres()
  await execute(postgres, `create database ${TEMPLATE}`)
  const db = createDatabase({ url: postgres.urlOf(TEMPLATE), onIdleError: () => {} })
  await migrateToLatest(db, 'migrations')
  await db.destroy()
  return postgres
}

async function execute(postgres: PostgresServer, statement: string): Promise<void> {
  const client = new Client({ connectionString: postgres.urlOf('postgres') })
  await client.connect()
  await client.query(statement)
  await client.end()
}
