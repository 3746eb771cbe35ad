import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts'
import { randomOf } from '../../support/random.ts'
import { type Admin, startAdmin } from './admin-harness.ts'
import {
  Client,
  COUNTED,
  countOf,
  type Done,
  LOOK_AGAIN_MS,
  own,
  pathOf,
  SPARE_REGION,
  type State,
  settled,
  TWINS,
} from './restart-clients.ts'

const SEED = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const CLIENTS = 4
/** Three of each kind by each client. */
const WRITES_EACH = 27
const RESTARTS = 3
const ACTIONS = [
  ...['policy.create', 'policy.update', 'policy.delete', 'policy.override'],
  ...['emergency.begin', 'emergency.end', 'region.drain', 'region.resume'],
  ...['token.create', 'token.revoke'],
]

let postgres: PostgresServer
let admin: Admin
beforeAll(async () => {
  postgres = await startPostgres()
  admin = await startAdmin({ url: postgres.urlOf('postgres') })
  await admin.register('us-east-1', 'eu-west-1', SPARE_REGION)
  const documents = [...COUNTED, ...TWINS].map((name) => own(name, 0))
  expect((await admin.call('POST', '/v1/apply', { documents })).status).toBe(200)
})
afterAll(async () => {
  await admin.close()
  await postgres.stop()
})

interface Entry {
  readonly revision: number | null
  readonly action: string
  readonly kind: string
  readonly id: string
  readonly before: unknown
  readonly after: unknown
  readonly reason: string | null
}

describe('writes of many clients of every kind, while Postgres restarts under them', () => {
  it(`lose no update, are never half applied, and are all in the audit log in order (SEED=${SEED})`, async () => {
    const { body } = await admin.call('GET', '/v1/revisions?limit=1')
    const firstRevision: number = body.items[0].revision
    const clients = Array.from(
      { length: CLIENTS },
      (_, id) => new Client(admin, { id, random: randomOf(SEED * CLIENTS + id), firstRevision }),
    )
    let writes = 0
    const write = async (client: Client): Promise<void> => {
      for (let at = 0; at < WRITES_EACH; at++) {
        await client.writeOnce()
        writes++
      }
    }
    /** Between the first write and the last, spread over them. */
    const restarter = async (): Promise<void> => {
      for (let restart = 1; restart <= RESTARTS; restart++) {
        const due = (restart * CLIENTS * WRITES_EACH) / (RESTARTS + 1)
        while (writes < due) await delay(LOOK_AGAIN_MS)
        await postgres.restart()
      }
    }
    await Promise.all([...clients.map(write), restarter()])

    const done = clients.flatMap((client) => client.done)
    const log = await readLog()
    expectEachToldOnce(done, log)
    await expectPolicies(done, log)
    await expectRegion(done, log)
    await expectWhatIsOpen(clients)
    await expectChainsOf(log)
    await expectWholeHistory()
  })
})

async function readLog(): Promise<readonly Entry[]> {
  const { rows } = await sql<Entry>`
    select revision, action, object_kind as kind, object_id as id, before, after, reason
    from audit order by seq`.execute(admin.db)
  return rows
}

/** What was answered as done was done once; what was refused left nothing; nothing else was done. */
function expectEachToldOnce(done: readonly Done[], log: readonly Entry[]): void {
  const told = new Map<string, Set<number | null>>()
  for (const { reason, revision } of log) {
    if (reason === null) continue
    told.set(reason, (told.get(reason) ?? new Set()).add(revision))
  }
  for (const { name, mayChangeNothing = false } of done) {
    const revisions = told.get(name)?.size ?? 0
    if (revisions !== 0 || !mayChangeNothing) expect(revisions, name).toBe(1)
    told.delete(name)
  }
  expect([...told.keys()]).toEqual([])
  const actions = new Set(log.map(({ action }) => action))
  for (const action of ACTIONS) expect(actions).toContain(action)
}

/** The revision of each that changed something, in their order. */
function inOrder(done: readonly Done[], log: readonly Entry[]): (readonly [number, Done])[] {
  const revisions = new Map(log.map(({ reason, revision }) => [reason, revision]))
  return done
    .flatMap((one) => {
      const revision = revisions.get(one.name) ?? null
      return revision === null ? [] : [[revision, one] as const]
    })
    .sort(([one], [other]) => one - other)
}

/** Policies are what the writes make of them, one after the other. */
async function expectPolicies(done: readonly Done[], log: readonly Entry[]): Promise<void> {
  let now: State = new Map([...COUNTED, ...TWINS].map((name) => [name, 0]))
  const past: [number, State][] = [[0, now]]
  const at = (revision: number): State => past.findLast(([since]) => since <= revision)?.[1] ?? now
  for (const [revision, { change }] of inOrder(done, log)) {
    now = change?.(now, at) ?? now
    past.push([revision, now])
  }
  const names = [...COUNTED, ...TWINS, ...Array.from({ length: CLIENTS }, (_, id) => `own-${id}`)]
  for (const name of names) {
    const read = await settled(() => admin.call('GET', pathOf(name)))
    expect(countOf(read), name).toBe(now.get(name) ?? null)
  }
}

async function expectRegion(done: readonly Done[], log: readonly Entry[]): Promise<void> {
  const moves = inOrder(done, log).flatMap(([, { region }]) => region ?? [])
  const { body } = await admin.call('GET', `/v1/regions/${SPARE_REGION}`)
  expect(body.state).toBe(moves.at(-1) ?? 'active')
}

async function expectWhatIsOpen(clients: readonly Client[]): Promise<void> {
  const actions = (await admin.call('GET', '/v1/emergency-actions?limit=100')).body.items
  const begun = clients.flatMap(({ action }) => action ?? [])
  expect(new Set(actions.map(({ id }: { id: number }) => id))).toEqual(new Set(begun))
  const tokens = (await admin.call('GET', '/v1/tokens')).body.items
  const made = clients.flatMap(({ token }) => token ?? [])
  expect(new Set(tokens.map(({ name }: { name: string }) => name))).toEqual(new Set(made))
}

/** Of each thing every entry begins where the one before it ended, and the last is what is there. */
async function expectChainsOf(log: readonly Entry[]): Promise<void> {
  const numbers = log.flatMap(({ revision }) => revision ?? [])
  expect(numbers).toEqual(numbers.toSorted((one, other) => one - other))
  const last = new Map<string, unknown>()
  for (const { kind, id, action, before, after } of log) {
    // Those are about what a policy has beside its document.
    if (action === 'policy.override' || action.startsWith('emergency.')) continue
    const key = `${kind} ${id}`
    expect(before, `${action} ${id}`).toEqual(last.get(key) ?? null)
    last.set(key, after)
  }
  for (const name of [...COUNTED, ...TWINS]) {
    const { body } = await admin.call('GET', pathOf(name))
    expect(last.get(`policy api/${name}`), name).toMatchObject({
      limits: [{ capacity: body.limits[0].capacity }],
    })
  }
  const { body } = await admin.call('GET', `/v1/regions/${SPARE_REGION}`)
  const { state, revision } = body
  expect(last.get(`region ${SPARE_REGION}`)).toMatchObject({ state, revision })
  const begun = log.filter(({ action }) => action === 'emergency.begin').length
  const ended = log.filter(({ action }) => action === 'emergency.end').length
  const { items } = (await admin.call('GET', '/v1/emergency-actions?limit=100')).body
  expect(begun - ended).toBe(items.length)
}

/** What the history of revisions says is what happened, one step after the other and each of them whole. */
async function expectWholeHistory(): Promise<void> {
  const { db } = admin
  const { rows: revisions } = await sql<{ number: number; first: number }>`
    select number, first from revisions order by number`.execute(db)
  const ends = [0, ...revisions.map(({ number }) => number)]
  expect(revisions.map(({ first }) => first)).toEqual(ends.slice(0, -1).map((end) => end + 1))
  const { rows: plane } = await sql<{ revision: number }>`select revision from plane`.execute(db)
  expect(plane[0]?.revision).toBe(ends.at(-1))
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
