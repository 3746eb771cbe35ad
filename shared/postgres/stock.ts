/**
 * Long windows in Postgres: which are open with which floors, and what regions were allotted.
 *
 * The rule itself is `shared/core/stock/pool.ts`; here it is applied to rows that are locked in one order, so that
 * requests of all regions, answered by any number of admins, act one after the other on each counter.
 */
import { sql } from 'kysely'
import type { RegionId } from '../core/policy.ts'
import { type Asked, allot, type Tokens } from '../core/stock/pool.ts'
import type { Db, Trx } from './plane.ts'

export interface StockWindowKey {
  readonly limitId: number
  readonly usageEpoch: number
  readonly startMs: number
}

export interface StoredWindow extends StockWindowKey {
  readonly endMs: number
  readonly floors: Tokens
}

export interface AccountAsk extends StockWindowKey {
  readonly counter: string
  readonly want: number
}

export interface AccountAnswer extends StockWindowKey {
  readonly counter: string
  readonly from: number
  readonly to: number
}

/**
 * Opens windows, or finds those that are open: the first floors stay. A window that was made longer meanwhile ends
 * when it now does; one that was made shorter keeps its end.
 */
export async function openWindows(
  db: Db,
  windows: readonly StoredWindow[],
): Promise<readonly StoredWindow[]> {
  if (windows.length === 0) return []
  const rows = await db
    .insertInto('stock_windows')
    .values(
      inOrder(windows).map((window) => ({
        limit_id: window.limitId,
        usage_epoch: window.usageEpoch,
        starts_ms: window.startMs,
        ends_ms: window.endMs,
        floors: JSON.stringify(window.floors),
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(['limit_id', 'usage_epoch', 'starts_ms']).doUpdateSet({
        ends_ms: sql`greatest(stock_windows.ends_ms, excluded.ends_ms)`,
      }),
    )
    .returning(['limit_id', 'usage_epoch', 'starts_ms', 'ends_ms', 'floors'])
    .execute()
  return rows.map((row) => ({
    limitId: row.limit_id,
    usageEpoch: row.usage_epoch,
    startMs: row.starts_ms,
    endMs: row.ends_ms,
    floors: row.floors,
  }))
}

/**
 * Gives `region` more of each counter; `capacityOf` says how much a window holds. Counters of windows that are not
 * open are not answered. Durable once it resolves. A counter's last question gets the same answer again.
 */
export async function allotAll(
  db: Db,
  request: {
    readonly region: RegionId
    readonly question: string
    readonly asks: readonly AccountAsk[]
  },
  capacityOf: (limitId: number) => number,
): Promise<readonly AccountAnswer[]> {
  const { region, question } = request
  if (request.asks.length === 0) return []
  return await db.transaction().execute(async (trx) => {
    const asks = inOrder(request.asks)
    const floors = await readFloors(trx, asks)
    const open = asks.filter((ask) => floors.has(windowKey(ask)))
    await addAccounts(trx, open)
    const accounts = await lockAccounts(trx, open)
    const answers = open.map((ask) => {
      const pool = {
        capacity: capacityOf(ask.limitId),
        floors: floors.get(windowKey(ask)) ?? {},
        ...(accounts.get(accountKey(ask)) ?? NOTHING_ALLOTTED),
      }
      const { from, to } = allot(pool, { region, question, want: ask.want })
      const { limitId, usageEpoch, startMs, counter } = ask
      return { limitId, usageEpoch, startMs, counter, from, to }
    })
    await writeAccounts(
      trx,
      { region, question },
      answers.filter(({ from, to }) => to > from),
    )
    return answers
  })
}

interface Account {
  readonly allotted: Tokens
  readonly asked: Readonly<Record<RegionId, Asked>>
}

const NOTHING_ALLOTTED: Account = { allotted: {}, asked: {} }

/** Tokens allotted so far of each counter of a window, for views. */
export async function readAccounts(
  db: Db,
  window: StockWindowKey,
  limit: number,
): Promise<readonly { readonly counter: string; readonly allotted: Tokens }[]> {
  return await db
    .selectFrom('stock_accounts')
    .where('limit_id', '=', window.limitId)
    .where('usage_epoch', '=', window.usageEpoch)
    .where('starts_ms', '=', window.startMs)
    .select(['counter', 'allotted'])
    .orderBy('counter')
    .limit(limit)
    .execute()
}

/**
 * Forgets windows that ended before `beforeMs` with all their accounts; at most `most` accounts at a time, so that no
 * statement takes long. True when there may be more.
 */
export async function forgetWindows(db: Db, beforeMs: number, most: number): Promise<boolean> {
  const { numAffectedRows } = await sql`
    delete from stock_accounts where ctid in (
      select account.ctid from stock_accounts account join stock_windows as ended
        using (limit_id, usage_epoch, starts_ms)
      where ended.ends_ms < ${beforeMs} limit ${most})
  `.execute(db)
  if (Number(numAffectedRows ?? 0) === most) return true
  await db.deleteFrom('stock_windows').where('ends_ms', '<', beforeMs).execute()
  return false
}

async function readFloors(
  trx: Trx,
  asks: readonly AccountAsk[],
): Promise<ReadonlyMap<string, Tokens>> {
  const rows = await trx
    .selectFrom('stock_windows')
    .where('limit_id', 'in', [...new Set(asks.map(({ limitId }) => limitId))])
    .where('starts_ms', 'in', [...new Set(asks.map(({ startMs }) => startMs))])
    .select(['limit_id', 'usage_epoch', 'starts_ms', 'floors'])
    .execute()
  return new Map(
    rows.map((row) => [
      windowKey({ limitId: row.limit_id, usageEpoch: row.usage_epoch, startMs: row.starts_ms }),
      row.floors,
    ]),
  )
}

async function addAccounts(trx: Trx, asks: readonly AccountAsk[]): Promise<void> {
  if (asks.length === 0) return
  await trx
    .insertInto('stock_accounts')
    .values(
      asks.map((ask) => ({
        limit_id: ask.limitId,
        usage_epoch: ask.usageEpoch,
        starts_ms: ask.startMs,
        counter: ask.counter,
      })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

async function lockAccounts(
  trx: Trx,
  asks: readonly AccountAsk[],
): Promise<ReadonlyMap<string, Account>> {
  if (asks.length === 0) return new Map()
  const rows = await trx
    .selectFrom('stock_accounts')
    .where((eb) =>
      eb(
        eb.refTuple('limit_id', 'usage_epoch', 'starts_ms', 'counter'),
        'in',
        asks.map((ask) => eb.tuple(ask.limitId, ask.usageEpoch, ask.startMs, ask.counter)),
      ),
    )
    .select(['limit_id', 'usage_epoch', 'starts_ms', 'counter', 'allotted', 'asked'])
    .orderBy('limit_id')
    .orderBy('usage_epoch')
    .orderBy('starts_ms')
    .orderBy('counter')
    .forUpdate()
    .execute()
  return new Map(
    rows.map((row) => {
      const { counter, allotted, asked } = row
      const window = {
        limitId: row.limit_id,
        usageEpoch: row.usage_epoch,
        startMs: row.starts_ms,
      }
      return [accountKey({ ...window, counter }), { allotted, asked }]
    }),
  )
}

/** Each row gets its region's new figure and what it answered, and keeps those of the others. */
async function writeAccounts(
  trx: Trx,
  { region, question }: { readonly region: RegionId; readonly question: string },
  answers: readonly AccountAnswer[],
): Promise<void> {
  if (answers.length === 0) return
  const given = JSON.stringify(
    answers.map(({ limitId, usageEpoch, startMs, counter, from, to }) => ({
      limit_id: limitId,
      usage_epoch: usageEpoch,
      starts_ms: startMs,
      counter,
      before: from,
      tokens: to,
    })),
  )
  await sql`
    update stock_accounts as account
    set allotted = account.allotted || jsonb_build_object(${region}::text, given.tokens),
      asked = account.asked || jsonb_build_object(
        ${region}::text, jsonb_build_object('question', ${question}::text, 'from', given.before))
    from jsonb_to_recordset(${given}::jsonb)
      as given (limit_id bigint, usage_epoch bigint, starts_ms bigint, counter text, before bigint, tokens bigint)
    where (account.limit_id, account.usage_epoch, account.starts_ms, account.counter)
      = (given.limit_id, given.usage_epoch, given.starts_ms, given.counter)
  `.execute(trx)
}

/** Everybody locks rows in this order, so nobody waits in a circle; a repeated counter is asked for once. */
function inOrder<Key extends StockWindowKey & { readonly counter?: string }>(
  keys: readonly Key[],
): readonly Key[] {
  const byKey = new Map(keys.map((key) => [accountKey({ counter: '', ...key }), key]))
  return [...byKey.entries()].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, key]) => key)
}

function windowKey({ limitId, usageEpoch, startMs }: StockWindowKey): string {
  return `${limitId}.${usageEpoch}.${startMs}`
}

function accountKey(key: StockWindowKey & { readonly counter: string }): string {
  return `${windowKey(key)}:${key.counter}`
}
