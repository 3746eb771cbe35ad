import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { isQuotaError } from '../../../shared/errors.ts'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
})
afterAll(async () => await postgres.stop())

const one = (db: Kysely<unknown>) => sql<{ one: number }>`select 1 as one`.execute(db)

const failureOf = async (work: Promise<unknown>): Promise<unknown> => {
  try {
    await work
  } catch (err) {
    return err
  }
  throw new Error('did not fail')
}

function connect(options: { poolMax?: number; acquireTimeoutMs?: number } = {}) {
  const idleErrors: Error[] = []
  const db = createDatabase<unknown>({
    url: postgres.urlOf('postgres'),
    onIdleError: (err) => idleErrors.push(err),
    ...options,
  })
  return { db, idleErrors }
}

describe('the pool', () => {
  it('gives int8 as a number, and fails rather than round it', async () => {
    const { db } = connect()
    const { rows } = await sql<{ big: number }>`select 9007199254740991::int8 as big`.execute(db)
    expect(rows).toEqual([{ big: Number.MAX_SAFE_INTEGER }])
    const tooBig = sql`select 9007199254740993::int8 as big`.execute(db)
    expect(String(await failureOf(tooBig))).toContain('safe integer')
    await db.destroy()
  })

  it('exhausted, refuses within its time and recovers all its connections (B133)', async () => {
    const { db } = connect({ poolMax: 3, acquireTimeoutMs: 200 })
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const held = [1, 2, 3].map(() =>
      db.transaction().execute(async (trx) => {
        await one(trx)
        await released
      }),
    )
    const startedMs = performance.now()
    const failures = await Promise.all(Array.from({ length: 50 }, () => failureOf(one(db))))
    expect(failures.every((err) => isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE'))).toBe(true)
    expect(performance.now() - startedMs).toBeLessThan(2_000)
    release()
    await Promise.all(held)
    const again = await Promise.all(Array.from({ length: 50 }, () => one(db)))
    expect(again).toHaveLength(50)
    const { rows } = await sql<{ count: number }>`
      select count(*) as count from pg_stat_activity where datname = 'postgres'`.execute(db)
    expect(rows[0]?.count).toBeLessThanOrEqual(3)
    await db.destroy()
  })

  it('refuses within its time where nothing answers a connection, and leaves none open (B133)', async () => {
    const sockets = new Set<Socket>()
    // The handshake of TCP succeeds, and nothing comes after it: a firewall that drops, or a frozen host.
    const silent = createServer((socket) => {
      sockets.add(socket.resume())
      socket.on('close', () => sockets.delete(socket))
      socket.on('error', () => {})
    })
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as AddressInfo
    const url = `postgresql://quotaplane@127.0.0.1:${port}/quotaplane`
    const options = { url, poolMax: 5, acquireTimeoutMs: 200 }
    const db = createDatabase<unknown>({ ...options, onIdleError: () => {} })
    const startedMs = performance.now()
    const failures = await Promise.all(Array.from({ length: 50 }, () => failureOf(one(db))))
    expect(performance.now() - startedMs).toBeLessThan(3_000)
    expect(failures.every((err) => isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE'))).toBe(true)
    await vi.waitFor(() => expect(sockets.size).toBe(0))
    await db.destroy()
    await new Promise((resolve) => silent.close(resolve))
  })

  it('gives up a lock before the caller gives up the reply', async () => {
    const { db } = connect()
    await sql`create table locked (id int)`.execute(db)
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    let tellLocked: () => void = () => {}
    const locked = new Promise<void>((resolve) => {
      tellLocked = resolve
    })
    const holder = db.transaction().execute(async (trx) => {
      await sql`lock table locked`.execute(trx)
      tellLocked()
      await released
    })
    await locked
    const err = await failureOf(sql`select * from locked`.execute(db))
    expect(isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')).toBe(true)
    release()
    await holder
    await sql`select * from locked`.execute(db)
    await db.destroy()
  })

  it('throws away a connection whose server fell silent, so no open transaction is handed on', async () => {
    const { db } = connect({ poolMax: 1, acquireTimeoutMs: 10_000 })
    await sql`create table counted (id int)`.execute(db)
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
    const backend = rows[0]?.pid ?? 0
    const err = await failureOf(
      db.transaction().execute(async (trx) => {
        await sql`insert into counted values (1)`.execute(trx)
        process.kill(backend, 'SIGSTOP')
        await one(trx)
      }),
    )
    process.kill(backend, 'SIGCONT')
    expect(isQuotaError(err, 'QUOTA_DATABASE_UNAVAILABLE')).toBe(true)
    const counted = await sql`select * from counted`.execute(db)
    expect(counted.rows).toEqual([])
    const now = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
    expect(now.rows[0]?.pid).not.toBe(backend)
    await db.destroy()
  })

  it('survives a restart of the server under idle connections', async () => {
    const { db, idleErrors } = connect()
    await one(db)
    await postgres.halt()
    await expect.poll(() => idleErrors.length).toBeGreaterThan(0)
    expect(isQuotaError(await failureOf(one(db)), 'QUOTA_DATABASE_UNAVAILABLE')).toBe(true)
    await postgres.start()
    expect((await one(db)).rows).toEqual([{ one: 1 }])
    await db.destroy()
  })

  it('leaves a server that was demoted in a failover, and writes to the one that took over', async () => {
    const { db } = connect({ poolMax: 1 })
    await sql`create table written (id int)`.execute(db)
    const pidOf = async (): Promise<number | undefined> => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
      return rows[0]?.pid
    }
    const before = await pidOf()
    // As it is for every connection that outlives the promotion of another server.
    await sql`set default_transaction_read_only = on`.execute(db)
    const write = () => sql`insert into written values (1)`.execute(db)
    expect(isQuotaError(await failureOf(write()), 'QUOTA_DATABASE_UNAVAILABLE')).toBe(true)
    await write()
    expect(await pidOf()).not.toBe(before)
    await db.destroy()
  })

  it('closes in time while the server is frozen', async () => {
    const { db } = connect()
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
    const backend = rows[0]?.pid ?? 0
    process.kill(backend, 'SIGSTOP')
    const startedMs = performance.now()
    await db.destroy()
    expect(performance.now() - startedMs).toBeLessThan(4_000)
    process.kill(backend, 'SIGCONT')
  })

  it('passes other failures on as they are', async () => {
    const { db } = connect()
    const err = await failureOf(sql`select * from no_such_table`.execute(db))
    expect(isQuotaError(err)).toBe(false)
    expect(String(err)).toContain('no_such_table')
    await db.destroy()
  })
})
