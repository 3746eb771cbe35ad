import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createDatabase } from '../../../shared/postgres/client.ts'
import type { Db } from '../../../shared/postgres/plane.ts'
import {
  allotAll,
  forgetWindows,
  openWindows,
  readAccounts,
} from '../../../shared/postgres/stock.ts'
import type { Tables } from '../../../shared/postgres/tables.ts'
import { testDatabaseUrl } from '../../support/test-database.ts'

let db: Db
let limitId: number

beforeAll(async () => {
  db = createDatabase<Tables>({ url: await testDatabaseUrl(), onIdleError: () => {} })
  await sql`insert into domains (name) values ('api')`.execute(db)
  await sql`insert into policies (domain, name, description, match, mode, on_store_failure, revision)
    values ('api', 'p', '', '[{"key":"a"}]', 'strict', 'allow', 1)`.execute(db)
})
afterAll(async () => await db.destroy())

beforeEach(async () => {
  const { rows } = await sql<{ id: number }>`
    insert into limits (policy_id, position, name, algorithm, capacity, window_ms, split, floor_percent)
    values (1, (select count(*) from limits), 'l' || (select count(*) from limits), 'fixed_window', 100,
      86400000, '{"a":50,"b":50}', 2) returning id`.execute(db)
  limitId = rows[0]?.id ?? 0
})

const window = (changes: object = {}) => ({
  limitId,
  usageEpoch: 0,
  startMs: 1_000,
  endMs: 2_000,
  floors: { a: 1, b: 1 },
  ...changes,
})
const ask = (counter: string, want = 10) => ({
  limitId,
  usageEpoch: 0,
  startMs: 1_000,
  counter,
  want,
})
const give = (region: string, ...asks: ReturnType<typeof ask>[]) =>
  allotAll(db, { region, question: randomUUID(), asks }, () => 100)

describe('a long window', () => {
  it('keeps the floors that it was opened with', async () => {
    await openWindows(db, [window()])
    const again = await openWindows(db, [window({ floors: { a: 50, c: 50 } })])
    expect(again).toEqual([window()])
  })

  it('ends later where it was made longer, and never sooner', async () => {
    await openWindows(db, [window()])
    expect(await openWindows(db, [window({ endMs: 3_000 })])).toMatchObject([{ endMs: 3_000 }])
    expect(await openWindows(db, [window()])).toMatchObject([{ endMs: 3_000 }])
  })

  it('answers a question that is asked again as before, and gives nothing twice for it', async () => {
    await openWindows(db, [window()])
    await give('a', ask('k', 3))
    const question = randomUUID()
    const asking = { region: 'a', question, asks: [ask('k', 10)] }
    const first = await allotAll(db, asking, () => 100)
    const again = await Promise.all([1, 2, 3].map(() => allotAll(db, asking, () => 100)))
    expect(first).toMatchObject([{ from: 3, to: 13 }])
    expect(again).toEqual([first, first, first])
    await give('b', ask('k', 10))
    expect(await give('a', ask('k', 10))).toMatchObject([{ from: 13, to: 23 }])
  })

  it('gives each token once to however many that ask at once', async () => {
    await openWindows(db, [window()])
    const regions = ['a', 'b', 'c', 'd']
    const rounds = Array.from({ length: 60 }, (_, round) => regions[round % 4] ?? '')
    const answers = await Promise.all(rounds.map((region) => give(region, ask('k', 5))))
    const given = answers.flat().reduce((sum, { from, to }) => sum + to - from, 0)
    expect(given).toBe(98)
    const [account] = await readAccounts(db, window(), 10)
    expect(Object.values(account?.allotted ?? {}).reduce((sum, tokens) => sum + tokens, 0)).toBe(98)
  })

  it('answers many counters at once, each with what the region had before', async () => {
    await openWindows(db, [window()])
    await give('a', ask('k1'))
    const answers = await give('a', ask('k2'), ask('k1'), ask('k2'))
    expect(answers).toEqual([
      { limitId, usageEpoch: 0, startMs: 1_000, counter: 'k1', from: 10, to: 20 },
      { limitId, usageEpoch: 0, startMs: 1_000, counter: 'k2', from: 0, to: 10 },
    ])
  })

  it('gives nothing before it is open, nor of another usage epoch', async () => {
    expect(await give('a', ask('k'))).toEqual([])
    await openWindows(db, [window({ usageEpoch: 1 })])
    expect(await give('a', ask('k'))).toEqual([])
  })

  it('is forgotten with its accounts when it is over, some at a time', async () => {
    await openWindows(db, [window(), window({ startMs: 2_000, endMs: 3_000 })])
    await give('a', ask('k1'), ask('k2'), ask('k3'))
    let rounds = 1
    while (await forgetWindows(db, 2_500, 2)) rounds += 1
    expect(rounds).toBeGreaterThan(1)
    const left = await db
      .selectFrom('stock_windows')
      .where('limit_id', '=', limitId)
      .select('starts_ms')
      .execute()
    expect(left).toEqual([{ starts_ms: 2_000 }])
    expect(await readAccounts(db, window(), 10)).toEqual([])
  })
})
