/** `CRASH_SEEDS=20 npx vitest run --project e2e crashes` plays more histories; `SEED=7` a certain one. */
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createDatabase } from '../../shared/postgres/client.ts'
import type { Db } from '../../shared/postgres/plane.ts'
import type { Tables } from '../../shared/postgres/tables.ts'
import { PACKAGE_ROOT } from '../../shared/runtime/assets.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'
import { Client, COUNTED, own, TOKEN, TWINS, type Write } from './crash-clients.ts'

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const SEEDS = Number(process.env['CRASH_SEEDS'] ?? 1)
const CLIENTS = 4
const WRITES_EACH = 20
const CRASHES = 4
const LOOK_AGAIN_MS = 5

let postgres: PostgresServer
const admins: (ServerProcess | undefined)[] = []
const urls: string[] = []
let db: Db

async function startAdmin(index: number): Promise<void> {
  const main = join(PACKAGE_ROOT, 'dist', 'services', 'admin', 'main.js')
  const env = {
    PATH: process.env['PATH'],
    DATABASE_URL: postgres.urlOf('postgres'),
    NATS_URL: 'nats://127.0.0.1:1',
    ADMIN_HOST: '127.0.0.1',
    ADMIN_PORT: '0',
    QUOTAPLANE_ADMIN_TOKEN: TOKEN,
  }
  const admin = await startServer(process.execPath, [main], '"msg":"admin is listening"', { env })
  admins[index] = admin
  urls[index] = /"url":"([^"]+)"/.exec(admin.log())?.[1] ?? ''
}

beforeAll(async () => {
  // An answer means that the change is in the log of Postgres: a crash of its process loses nothing of that.
  postgres = await startPostgres(undefined, ['synchronous_commit=on'])
  db = createDatabase<Tables>({ url: postgres.urlOf('postgres'), onIdleError: () => {} })
  await Promise.all([0, 1].map(startAdmin))
  const call = (method: string, path: string, body: unknown) =>
    fetch(`${urls[0]}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${TOKEN}`,
        'content-type': 'application/json',
        'if-none-match': '*',
      },
      body: JSON.stringify(body),
    })
  await vi.waitFor(
    async () => expect((await call('PUT', '/v1/regions/us-east-1', {})).status).toBe(201),
    { timeout: 20_000, interval: 50 },
  )
  expect((await call('PUT', '/v1/regions/eu-west-1', {})).status).toBe(201)
  const documents = [...COUNTED, ...TWINS].map((name) => own(name, 0))
  expect((await call('POST', '/v1/apply', { documents })).status).toBe(200)
})
afterAll(async () => {
  await Promise.all(admins.map((admin) => admin?.stop('SIGKILL')))
  await db?.destroy()
  await postgres?.stop()
})

describe('writes of many operators, while Postgres and admins are killed under them', () => {
  it.each(Array.from({ length: SEEDS }, (_, index) => SEED + index))(
    'are carried out once or not at all, each wholly, and are all in the audit log in order (SEED=%i)',
    async (seed) => {
      const { number: from = 0 } = (await revisions()).at(-1) ?? {}
      const clients = Array.from({ length: CLIENTS }, (_, id) => new Client(id, seed, () => urls))
      await Promise.all([...clients.map(writeAll), crashAmong(clients)])
      const writes = clients.flatMap((client) => client.writes)
      await expectEachOnce(writes, from)
      await expectWholeHistory(writes)
      await expectPresent(clients[0])
    },
  )
})

async function writeAll(client: Client): Promise<void> {
  while (client.writes.length < WRITES_EACH) await client.writeOnce()
}

/** Between the first write and the last, spread over them. */
async function crashAmong(clients: readonly Client[]): Promise<void> {
  for (let crash = 1; crash <= CRASHES; crash++) {
    const due = Math.floor((crash * CLIENTS * WRITES_EACH) / (CRASHES + 1))
    while (clients.reduce((sum, { writes }) => sum + writes.length, 0) < due)
      await delay(LOOK_AGAIN_MS)
    if (crash % 2 === 1) await postgres.crash()
    else await killAdmin((crash / 2) % 2)
  }
}

async function killAdmin(index: number): Promise<void> {
  await admins[index]?.stop('SIGKILL')
  await startAdmin(index)
}

async function revisions() {
  const { rows } = await sql<{ number: number; first: number; request_id: string }>`
    select number, first, request_id from revisions order by number`.execute(db)
  return rows
}

/** Each write is of at most one revision; one that was answered is of just the revision that the answer named. */
async function expectEachOnce(writes: readonly Write[], from: number): Promise<void> {
  const made = new Map<string, number[]>()
  for (const { number, request_id: requestId } of await revisions()) {
    if (number <= from) continue
    const id = requestId.split('.')[0] ?? ''
    made.set(id, [...(made.get(id) ?? []), number])
  }
  for (const write of writes) {
    expectOnce(write, made.get(write.id) ?? [])
    made.delete(write.id)
  }
  // Nobody but the operators changed anything: regions do not live here, so nothing is adopted or moved.
  expect([...made.keys()]).toEqual([])
  const answered = writes.filter(({ status }) => status !== null)
  expect(answered.length).toBeGreaterThan(writes.length / 2)
  expect(new Set(answered.map(({ kind }) => kind)).size).toBeGreaterThan(5)
}

function expectOnce(write: Write, numbers: readonly number[]): void {
  const { status, revision } = write
  const told = JSON.stringify(write)
  expect(numbers.length, told).toBeLessThanOrEqual(1)
  if (status === null) return
  if (status >= 400) expect(numbers, told).toEqual([])
  else if (status > 200) expect(numbers.length, told).toBe(1)
  if (status < 400 && revision !== null && numbers.length > 0) {
    expect(numbers, told).toEqual([revision])
  }
}

interface Change {
  readonly revision: number
  readonly object_kind: string
  readonly object_id: string
  readonly before: unknown
  readonly after: unknown
}

type State = ReadonlyMap<string, unknown>

/** Revisions have no gaps, the audit log has each in their order, and documents go on from where they were. */
async function expectWholeHistory(writes: readonly Write[]): Promise<void> {
  const all = await revisions()
  const ends = [0, ...all.map(({ number }) => number)]
  expect(all.map(({ first }) => first)).toEqual(ends.slice(0, -1).map((end) => end + 1))
  const { rows: plane } = await sql<{ revision: number }>`select revision from plane`.execute(db)
  expect(plane[0]?.revision).toBe(ends.at(-1))
  const { rows: audit } = await sql<{ revision: number; request_id: string }>`
    select revision, request_id from audit where revision is not null order by seq`.execute(db)
  const told = audit.map(({ revision, request_id: id }) => `${revision} ${id}`)
  expect([...new Set(told)]).toEqual(all.map(({ number, request_id: id }) => `${number} ${id}`))
  expect(told.filter((one, index) => one !== told[index - 1])).toEqual([...new Set(told)])

  const { rows: changes } = await sql<Change>`
    select revision, object_kind, object_id, before, after from revision_changes
    where object_kind in ('policy', 'override') order by revision, position`.execute(db)
  const idOf = new Map(all.map(({ number, request_id: id }) => [number, id.split('.')[0] ?? '']))
  const states = expectChain(changes)
  expectRollbacks(writes, idOf, states)
  const counts = new Set(writes.flatMap(({ id, kind }) => (kind === 'count' ? [id] : [])))
  for (const { revision, before, after } of changes) {
    if (!counts.has(idOf.get(revision) ?? '')) continue
    const [old, now] = [capacityOf(before) ?? 10_000, capacityOf(after) ?? 0]
    expect(now - old, `count at ${revision}`).toBe(1)
  }
}

/** Every document goes on from where it was, and what is changed together is never apart; all states by revision. */
function expectChain(changes: readonly Change[]): ReadonlyMap<number, State> {
  const state = new Map<string, unknown>()
  const states = new Map<number, State>()
  for (const [index, { revision, object_kind, object_id, before, after }] of changes.entries()) {
    const key = `${object_kind} ${object_id}`
    expect(before, `${key} at ${revision}`).toEqual(state.get(key) ?? null)
    if (after === null) state.delete(key)
    else state.set(key, after)
    if (changes[index + 1]?.revision === revision) continue
    states.set(revision, new Map(state))
    const [a, b] = TWINS.map((name) => capacityOf(state.get(`policy api/${name}`)))
    expect(a, `twins at ${revision}`).toBe(b)
  }
  return states
}

/** A rollback brings back all that was at its revision, and nothing else. */
function expectRollbacks(
  writes: readonly Write[],
  idOf: ReadonlyMap<number, string>,
  states: ReadonlyMap<number, State>,
): void {
  const targets = new Map(writes.flatMap(({ id, to }) => (to === undefined ? [] : [[id, to]])))
  for (const [revision, state] of states) {
    const to = targets.get(idOf.get(revision) ?? '')
    if (to === undefined) continue
    const was = [...states].findLast(([number]) => number <= to)?.[1] ?? new Map()
    expect(state, `rollback to ${to} at ${revision}`).toEqual(was)
  }
}

function capacityOf(document: unknown): number | undefined {
  const { limits } = (document ?? {}) as { limits?: readonly { capacity: number }[] }
  return limits?.[0]?.capacity
}

/** What admin shows is what the history ends with. */
async function expectPresent(client: Client | undefined): Promise<void> {
  const { rows } = await sql<{ object_id: string; after: unknown }>`
    select distinct on (object_id) object_id, after from revision_changes
    where object_kind = 'policy' order by object_id, revision desc, position desc`.execute(db)
  const last = new Map(rows.map(({ object_id: id, after }) => [id, capacityOf(after)]))
  const page = await client?.read('/v1/policies?limit=100')
  const present = new Map<string, number>(
    page?.body.items.map((policy: { domain: string; name: string }) => [
      `${policy.domain}/${policy.name}`,
      capacityOf(policy),
    ]),
  )
  expect(present).toEqual(new Map([...last].filter(([, capacity]) => capacity !== undefined)))
}
