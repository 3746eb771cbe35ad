import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { answerStock } from '../../../services/admin/stock-answers.ts'
import type { StockRequest } from '../../../shared/protocol/stock-messages.ts'
import { type Admin, startAdmin } from './admin-harness.ts'

/** What admin gives of long windows, over a real Postgres. */

const DAY_MS = 86_400_000
const SPLIT = { 'us-east-1': 60, 'eu-west-1': 40 }
const DAILY = {
  name: 'daily',
  algorithm: 'fixed_window',
  capacity: 1_000,
  windowMs: DAY_MS,
  split: SPLIT,
}

let admin: Admin
let limitId: number

beforeEach(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await put({})
})
afterEach(() => admin.close())

/** Saves the policy with these changes of its limit. */
async function put(changes: object, policy: object = {}): Promise<void> {
  const limit = JSON.parse(JSON.stringify({ ...DAILY, ...changes }))
  const body = { match: [{ key: 'tenant' }], ...policy, limits: [limit] }
  const answer = await admin.call('PUT', '/v1/domains/api/policies/daily', body, {
    'if-match': '*',
  })
  const created =
    answer.status < 300
      ? answer
      : await admin.call('PUT', '/v1/domains/api/policies/daily', body, { 'if-none-match': '*' })
  expect(created.status).toBeLessThan(300)
  limitId = (await stored()).id
}

async function stored(): Promise<{ id: number; usage_epoch: number }> {
  return await admin.db
    .selectFrom('limits')
    .select(['id', 'usage_epoch'])
    .where('name', '=', 'daily')
    .executeTakeFirstOrThrow()
}

const ask = (region: string, request: Partial<Omit<StockRequest, 'v'>>) =>
  answerStock(admin.db, {
    region,
    request: { question: randomUUID(), windows: [], asks: [], ...request },
    nowMs: admin.clock.nowMs,
  })
const open = async (region: string, atMs = admin.clock.nowMs, usageEpoch = 0) =>
  (await ask(region, { windows: [{ limitId, usageEpoch, atMs }] })).windows[0]
const give = async (region: string, want: number, usageEpoch = 0) => {
  const startMs = Math.floor(admin.clock.nowMs / DAY_MS) * DAY_MS
  const asks = [{ limitId, usageEpoch, startMs, counter: 'acme', want }]
  return (await ask(region, { asks })).allotted[0]
}

describe('admin', () => {
  it('opens a window with floors that a later split or floor does not change', async () => {
    expect(await open('us-east-1')).toMatchObject({ floor: 12, endMs: expect.any(Number) })
    await put({ floorPercent: 50, split: { 'us-east-1': 10, 'eu-west-1': 90 } })
    expect(await open('eu-west-1')).toMatchObject({ floor: 8 })
    expect(await open('eu-west-1', admin.clock.nowMs + DAY_MS)).toMatchObject({ floor: 450 })
  })

  it('does not wait for anybody when the split of a long window changes', async () => {
    await put({ split: { 'us-east-1': 10, 'eu-west-1': 90 } })
    await put({ split: { 'us-east-1': 20, 'eu-west-1': 80 } })
    const rows = await admin.db.selectFrom('base_epochs').selectAll().execute()
    expect(rows.filter(({ closed_at }) => closed_at === null)).toEqual([])
  })

  it('opens no window that is over, further ahead than the next, or of no stock', async () => {
    const { nowMs } = admin.clock
    expect(await open('us-east-1', nowMs - DAY_MS)).toBeUndefined()
    expect(await open('us-east-1', nowMs + 2 * DAY_MS)).toBeUndefined()
    await put({ windowMs: 60_000 })
    expect(await open('us-east-1')).toBeUndefined()
    limitId = -1
    expect(await open('us-east-1')).toBeUndefined()
  })

  it('gives by the capacity of the moment: more once it was raised, nothing once it was lowered', async () => {
    await open('us-east-1')
    while ((await give('us-east-1', 1_000))?.to !== 980);
    await put({ capacity: 1_100 })
    expect((await give('eu-west-1', 10))?.to).toBe(10)
    await put({ capacity: 500 })
    expect(await give('eu-west-1', 10)).toMatchObject({ from: 10, to: 10 })
  })

  it('gives more than the limit by the per cent of a relaxed policy, and no more', async () => {
    await put({}, { mode: 'relaxed', relaxedPercent: 10 })
    await open('us-east-1')
    while ((await give('us-east-1', 1_000))?.to !== 1_100 - 13 - 9);
  })

  it('counts from nothing after a reset, and gives nothing of what was before it', async () => {
    await open('us-east-1')
    await give('us-east-1', 100)
    await admin.call('POST', '/v1/domains/api/policies/daily/reset', undefined, { 'if-match': '*' })
    expect((await stored()).usage_epoch).toBe(1)
    expect(await give('us-east-1', 10)).toBeUndefined()
    await open('us-east-1', admin.clock.nowMs, 1)
    expect(await give('us-east-1', 10, 1)).toMatchObject({ from: 0, to: 10 })
  })

  it('gives a limit that becomes stock, or ceases to be, counters of its own', async () => {
    const before = limitId
    await put({ capacity: 2_000 })
    expect(limitId).toBe(before)
    await put({ windowMs: 3_600_000 })
    expect(limitId).not.toBe(before)
    const short = limitId
    await put({ windowMs: 3_600_000 }, { mode: 'eventual' })
    expect(limitId).not.toBe(short)
  })

  it('opens the days of a calendar where its zone has them', async () => {
    await put({ windowMs: undefined, calendar: { unit: 'day', timeZone: 'Asia/Tokyo' } })
    const window = await open('us-east-1', Date.parse('2027-01-15T20:00:00Z'))
    expect(new Date(window?.startMs ?? 0).toISOString()).toBe('2027-01-15T15:00:00.000Z')
    expect(window?.endMs).toBe((window?.startMs ?? 0) + DAY_MS)
  })

  it('forgets windows that ended more than a day ago', async () => {
    await open('us-east-1')
    await give('us-east-1', 10)
    admin.clock.nowMs += 3 * DAY_MS
    await admin.follower.stepOnce()
    expect(await admin.db.selectFrom('stock_windows').selectAll().execute()).toEqual([])
    expect(await admin.db.selectFrom('stock_accounts').selectAll().execute()).toEqual([])
  })
})
