import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'
import { randomOf } from '../../support/random.ts'
import { type Admin, type Answer, aLimit, aPolicy, startAdmin } from './admin-harness.ts'

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const CLIENTS = 4
const WRITES_EACH = 30
const RESTARTS = 3
const LOOK_AGAIN_MS = 10
const COUNTED = ['counted-0', 'counted-1', 'counted-2']
const TWINS = ['twin-a', 'twin-b']

let postgres: PostgresServer
let admin: Admin
beforeAll(async () => {
  postgres = await startPostgres()
  admin = await startAdmin({ url: postgres.urlOf('postgres') })
  await admin.register('us-east-1', 'eu-west-1')
  const documents = [...COUNTED, ...TWINS].map((name) => own(name, 0))
  expect((await admin.call('POST', '/v1/apply', { documents })).status).toBe(200)
})
afterAll(async () => {
  await admin.close()
  await postgres.stop()
})

/** A policy that says in its capacity how often it was changed. */
const own = (name: string, changes: number) =>
  aPolicy({ name, match: [{ key: name }], limits: [aLimit({ capacity: 10_000 + changes })] })
const pathOf = (name: string) => `/v1/domains/api/policies/${name}`

/** Repeats a request until admin has an answer to it: while Postgres is away that is a 503. */
async function settled(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await send()
    expect(answer.status, JSON.stringify(answer.body)).not.toBe(500)
    if (answer.status !== 503) return answer
    await delay(LOOK_AGAIN_MS)
  }
}

const countOf = ({ body }: Answer): number => body.limits[0].capacity - 10_000

describe('writes of many clients, while Postgres restarts under them', () => {
  it(`lose no update, are never half applied, and are all in the audit log in order (SEED=${SEED})`, async () => {
    const done = new Map<string, number>()
    let writes = 0
    const client = async (id: number): Promise<void> => {
      const random = randomOf(SEED * CLIENTS + id)
      for (let at = 0; at < WRITES_EACH; at++) {
        const key = { 'idempotency-key': `${id}-${at}` }
        const kind = random.below(4)
        if (kind === 0) await applyTwins(key)
        else if (kind === 1) await overrideOne(random, key)
        else await countUp(random.pick(COUNTED), key)
        writes++
      }
    }
    /** Reads and writes what was read plus one; somebody else in between is a 412, and it is tried anew. */
    const countUp = async (name: string, key: Record<string, string>): Promise<void> => {
      for (let attempt = 0; ; attempt++) {
        const read = await settled(() => admin.call('GET', pathOf(name)))
        const headers = {
          'if-match': read.etag ?? '',
          'idempotency-key': `${key['idempotency-key']}-${attempt}`,
        }
        const document = own(name, countOf(read) + 1)
        const put = await settled(() => admin.call('PUT', pathOf(name), document, headers))
        if (put.status === 412) continue
        expect(put.status).toBe(200)
        done.set(name, (done.get(name) ?? 0) + 1)
        return
      }
    }
    let twins = 0
    const applyTwins = async (key: Record<string, string>): Promise<void> => {
      const documents = TWINS.map((name) => own(name, ++twins - (twins % 2 === 0 ? 1 : 0)))
      const applied = await settled(() => admin.call('POST', '/v1/apply', { documents }, key))
      expect(applied.status).toBe(200)
    }
    const overrideOne = async (
      random: ReturnType<typeof randomOf>,
      key: Record<string, string>,
    ): Promise<void> => {
      const path = `${pathOf(random.pick(COUNTED))}/overrides/tenant-${random.below(5)}`
      const limits = { 'per-second': { capacity: random.below(1_000) } }
      const isRemoval = random.below(3) === 0
      const answer = await settled(() =>
        isRemoval
          ? admin.call('DELETE', path, undefined, key)
          : admin.call('PUT', path, { limits }, key),
      )
      expect([200, 204, 404]).toContain(answer.status)
    }
    /** Between the first write and the last, spread over them. */
    const restarter = async (): Promise<void> => {
      for (let restart = 1; restart <= RESTARTS; restart++) {
        const due = (restart * CLIENTS * WRITES_EACH) / (RESTARTS + 1)
        while (writes < due) await delay(LOOK_AGAIN_MS)
        await postgres.restart()
      }
    }
    const clients = Array.from({ length: CLIENTS }, (_, id) => client(id))
    await Promise.all([...clients, restarter()])

    for (const name of COUNTED) {
      const read = await settled(() => admin.call('GET', pathOf(name)))
      expect(countOf(read), name).toBe(done.get(name) ?? 0)
    }
    await expectWholeHistory()
  })
})

/** What the audit log and the history of revisions say is what happened, one step after the other. */
async function expectWholeHistory(): Promise<void> {
  const { db } = admin
  const [a, b] = await Promise.all(TWINS.map((name) => admin.call('GET', pathOf(name))))
  expect(a?.body.limits[0].capacity).toBe(b?.body.limits[0].capacity)
  const { rows: revisions } = await sql<{ number: number; first: number }>`
    select number, first from revisions order by number`.execute(db)
  const ends = [0, ...revisions.map(({ number }) => number)]
  expect(revisions.map(({ first }) => first)).toEqual(ends.slice(0, -1).map((end) => end + 1))
  const { rows: plane } = await sql<{ revision: number }>`select revision from plane`.execute(db)
  expect(plane[0]?.revision).toBe(ends.at(-1))

  const { rows: audit } = await sql<{
    revision: number
    action: string
    object_id: string
    before: unknown
    after: unknown
  }>`select revision, action, object_id, before, after from audit where object_kind = 'policy' order by seq`.execute(
    db,
  )
  const numbers = audit.map(({ revision }) => revision)
  expect(numbers).toEqual(numbers.toSorted((one, other) => one - other))
  const last = new Map<string, unknown>()
  for (const { action, object_id: id, before, after } of audit) {
    if (action === 'policy.override') continue
    expect(before, id).toEqual(last.get(id) ?? null)
    last.set(id, after)
  }
  for (const name of [...COUNTED, ...TWINS]) {
    const { body } = await admin.call('GET', pathOf(name))
    expect(last.get(`api/${name}`), name).toMatchObject({
      limits: [{ capacity: body.limits[0].capacity }],
    })
  }
  const { rows: untold } = await sql`
    select 1 from revisions where not exists (select 1 from audit where revision = number)`.execute(
    db,
  )
  expect(untold).toEqual([])
  const { rows: twins } = await sql<{ count: number }>`
    select count(*)::int as count from revision_changes
    where object_id in ('api/twin-a', 'api/twin-b') group by revision`.execute(db)
  expect(new Set(twins.map(({ count }) => count))).toEqual(new Set([TWINS.length]))
}
