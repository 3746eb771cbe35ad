import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { type PostgresPair, startPostgresPair } from '../../support/postgres-pair.ts'
import { type Admin, aPolicy, startAdmin } from '../admin/admin-harness.ts'

const CLIENTS = 3

/** Below the deadline of a query: nobody is kept waiting for a server that is gone. */
const PROMPT_MS = 4_000

/** A machine that is busy takes its time to get so far; that is no failure. */
const patient = { timeout: 15_000 }

let pair: PostgresPair
let admin: Admin

beforeAll(async () => {
  pair = await startPostgresPair()
  await untilReplicated(pair.primaryUrl)
  admin = await startAdmin({ url: pair.url })
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => {
  await admin.close()
  await pair.stop()
})

/** From then on no commit is answered before the replica has it. */
async function untilReplicated(url: string): Promise<void> {
  const db = createDatabase({ url, onIdleError: () => {} })
  const states = async () => {
    const { rows } = await sql<{
      state: string
    }>`select sync_state as state from pg_stat_replication`.execute(db)
    return rows.map(({ state }) => state)
  }
  await vi.waitFor(async () => expect(await states()).toEqual(['sync']), patient)
  await db.destroy()
}

/** Writes of several clients, until `stop`. */
function startWriting() {
  const written: string[] = []
  const refusedMs: number[] = []
  let isStopped = false
  const client = async (id: number): Promise<void> => {
    for (let at = 0; !isStopped; at++) {
      const name = `of-${id}-${at}`
      const startedMs = performance.now()
      const { status, body } = await admin.create(aPolicy({ name, match: [{ key: name }] }))
      expect([201, 503], JSON.stringify(body)).toContain(status)
      if (status === 201) written.push(name)
      else refusedMs.push(performance.now() - startedMs)
    }
  }
  const all = Promise.all(Array.from({ length: CLIENTS }, (_, id) => client(id)))
  return {
    written,
    refusedMs,
    async stop() {
      isStopped = true
      await all
    },
  }
}

/** Until there were answers before it, refusals while there is no primary, and answers after it. */
async function failOver({ written, refusedMs }: ReturnType<typeof startWriting>): Promise<void> {
  await expect.poll(() => written.length, patient).toBeGreaterThan(20)
  await pair.killPrimary()
  const before = written.length
  await expect.poll(() => refusedMs.length, patient).toBeGreaterThan(20)
  await admin.follower.stepOnce()
  expect(admin.follower.isDatabaseUp()).toBe(false)
  await pair.promote()
  await expect.poll(() => written.length, patient).toBeGreaterThan(before + 20)
}

describe('several servers of Postgres', () => {
  it('are asked for the one that takes writes, in whichever order they are named', async () => {
    const isReplica = async (url: string) => {
      const db = createDatabase({ url, poolMax: 1, onIdleError: () => {} })
      const { rows } = await sql`select pg_is_in_recovery() as is`.execute(db)
      await db.destroy()
      return rows
    }
    expect(await isReplica(pair.url)).toEqual([{ is: false }])
    expect(await isReplica(pair.turnedUrl)).toEqual([{ is: false }])
  })
})

describe('a failover of Postgres', () => {
  it('loses no write that was answered, refuses writes promptly meanwhile, and needs nobody to go on', async () => {
    const writing = startWriting()
    try {
      await failOver(writing)
    } finally {
      await writing.stop()
    }
    expect(Math.max(...writing.refusedMs)).toBeLessThan(PROMPT_MS)
    await admin.follower.stepOnce()
    expect(admin.follower.isDatabaseUp()).toBe(true)
    const stored = await admin.db.selectFrom('policies').select('name').execute()
    const names = new Set(stored.map(({ name }) => name))
    expect(writing.written.filter((name) => !names.has(name))).toEqual([])
    const { body } = await admin.call('GET', '/v1/audit?limit=1')
    expect(body.items[0]).toMatchObject({ action: 'policy.create', revision: admin.cache.revision })
  })
})
