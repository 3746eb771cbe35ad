import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { recordAudit } from '../../../shared/postgres/audit.ts'
import { createDatabase } from '../../../shared/postgres/client.ts'
import { takeIncarnation } from '../../../shared/postgres/incarnations.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import type { Tables } from '../../../shared/postgres/tables.ts'
import { testDatabaseUrl } from '../../support/test-database.ts'

let db: Db
beforeAll(async () => {
  db = createDatabase<Tables>({ url: await testDatabaseUrl(), onIdleError: () => {} })
  await sql`insert into domains (name) values ('api')`.execute(db)
  await sql`insert into policies (domain, name, description, match, mode, on_store_failure, revision)
    values ('api', 'p', '', '[{"key":"a"}]', 'strict', 'allow', 1)`.execute(db)
})
afterAll(async () => await db.destroy())

const VALID_LIMIT = {
  policy_id: 1,
  position: 0,
  name: 'l',
  algorithm: 'token_bucket',
  capacity: 10,
  window_ms: 1000,
  burst: 10,
  split: '{"a":100}',
  floor_percent: 2,
}

function insertLimit(changes: object): Promise<unknown> {
  const row = { ...VALID_LIMIT, ...changes }
  const columns = Object.keys(row).map((column) => sql.ref(column))
  return sql`insert into limits (${sql.join(columns)}) values (${sql.join(Object.values(row))})`.execute(
    db,
  )
}

describe('the schema', () => {
  it.each([
    ['a negative capacity', { capacity: -1 }],
    ['a capacity above the safe integers', { capacity: '9007199254740992' }],
    ['a window of 0', { window_ms: 0 }],
    ['a burst of 0', { burst: 0 }],
    ['weights that do not sum to 100', { split: '{"a":60,"b":30}' }],
    ['a negative weight', { split: '{"a":110,"b":-10}' }],
    ['an unknown algorithm', { algorithm: 'leaky' }],
    ['a floor above 100', { floor_percent: 101 }],
    ['17 shards', { shards: 17 }],
    ['a calendar without a time zone', { algorithm: 'fixed_window', calendar_unit: 'day' }],
    ['a calendar of a bucket', { calendar_unit: 'day', time_zone: 'UTC' }],
    ['a name that is none', { name: 'No Name' }],
  ])('refuses a limit with %s', async (_mistake, changes) => {
    await expect(insertLimit(changes)).rejects.toThrow(/check constraint/)
  })

  it('never gives a limit an id that another had, and takes none from a writer', async () => {
    await insertLimit({ name: 'first' })
    const idOf = async (name: string): Promise<number | undefined> =>
      (await db.selectFrom('limits').select('id').where('name', '=', name).executeTakeFirst())?.id
    const first = (await idOf('first')) ?? 0
    await sql`delete from limits where id = ${first}`.execute(db)
    await insertLimit({ name: 'second' })
    expect(await idOf('second')).toBeGreaterThan(first)
    await expect(insertLimit({ name: 'third', position: 1, id: first })).rejects.toThrow(
      // As Postgres 13 says it, and as later ones do.
      /insert (into column|a non-DEFAULT value)/,
    )
  })

  it('refuses a base that does not sum to the pool, and a second open epoch', async () => {
    await insertLimit({ name: 'epochs', position: 5 })
    const openEpoch = (epoch: number, base: string) =>
      sql`
      insert into base_epochs (limit_id, epoch, base)
      select id, ${epoch}, ${base}::jsonb from limits where name = 'epochs'`.execute(db)
    await expect(openEpoch(1, '{"a":999999}')).rejects.toThrow(/check constraint/)
    await openEpoch(1, '{"a":1000000}')
    await expect(openEpoch(2, '{"a":1000000}')).rejects.toThrow(/base_epochs_open/)
  })

  it('has one plane', async () => {
    await expect(sql`insert into plane default values`.execute(db)).rejects.toThrow(/plane_pkey/)
  })

  it.each(['update audit set actor = $$x$$', 'delete from audit', 'truncate audit'])(
    'refuses to %s: the audit log is append-only',
    async (statement) => {
      const context = { actor: 'a', requestId: 'r', reason: null }
      const change = {
        action: 'x',
        objectKind: 'policy',
        objectId: 'o',
        before: null,
        after: {},
      } as const
      await db.transaction().execute((trx) => recordAudit(trx, context, change))
      await expect(sql.raw(statement).execute(db)).rejects.toThrow(/append-only/)
    },
  )
})

describe('an incarnation', () => {
  const take = (changes: object = {}) =>
    takeIncarnation(db, {
      region: 'us-east-1',
      requestId: 'r1',
      atLeast: 0,
      nowMs: 1_000,
      ...changes,
    })

  it('is the first once, and the same answer for the same question', async () => {
    expect(await take()).toEqual({ incarnation: 1_000, first: true })
    expect(await take({ nowMs: 5_000 })).toEqual({ incarnation: 1_000, first: true })
    expect(await take({ requestId: 'r2' })).toEqual({ incarnation: 1_001, first: false })
    expect(await take({ requestId: 'r2' })).toEqual({ incarnation: 1_001, first: false })
  })

  it('is above the wall clock and above what the region knows of itself', async () => {
    expect((await take({ requestId: 'r3', nowMs: 9_000 })).incarnation).toBe(9_000)
    expect((await take({ requestId: 'r4', nowMs: 1, atLeast: 20_000 })).incarnation).toBe(20_001)
  })

  it('is not the first of a region that knows of an earlier one', async () => {
    const taken = await take({ region: 'eu-west-1', requestId: 'r5', atLeast: 7 })
    expect(taken.first).toBe(false)
  })

  it('is given to one of many that ask at once', async () => {
    const asked = Array.from({ length: 10 }, (_, i) =>
      take({ region: 'ap-south-1', requestId: `same-time-${i}` }),
    )
    const taken = await Promise.all(asked)
    expect(new Set(taken.map((each) => each.incarnation)).size).toBe(10)
    expect(taken.filter((each) => each.first)).toHaveLength(1)
  })
})
