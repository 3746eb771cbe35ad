/**
 * A plane of many policies, each with an override. `POLICIES=10000 npx vitest run large-plane` prints what listing,
 * planning and applying all of them take at the size that a plane is made for.
 */
import type { KyselyPlugin } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { applyDocuments } from '../../../services/admin/apply.ts'
import { pageOfPolicies } from '../../../services/admin/policy-list.ts'
import { readStamp } from '../../../shared/postgres/plane.ts'
import { changePlane } from '../../../shared/postgres/plane-change.ts'
import { applySchema } from '../../../shared/protocol/apply.ts'
import { type Admin, aLimit, aPolicy, startAdmin } from './admin-harness.ts'

const POLICIES = Number(process.env['POLICIES'] ?? 500)

/** What an operator waits for at most with 10,000 policies; here it bounds far fewer on a machine that is busy. */
const WAIT_MS_MAX = 2_000

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

const documentsOf = (count: number, capacity: number, domain: string) =>
  Array.from({ length: count }, (_, id) =>
    aPolicy({
      domain,
      name: `policy-${id}`,
      match: [{ key: 'tenant', value: `tenant-${id}` }, { key: 'user' }],
      limits: [aLimit({ capacity })],
      overrides: [{ value: 'acme', limits: { 'per-second': { capacity: 2 * capacity } } }],
    }),
  )

async function timed<T>(work: () => Promise<T>): Promise<{ ms: number; result: T }> {
  const startedMs = performance.now()
  const result = await work()
  return { ms: Math.round(performance.now() - startedMs), result }
}

async function listAll(domain: string): Promise<number> {
  let [count, cursor] = [0, '']
  do {
    const { body } = await admin.call('GET', `/v1/policies?domain=${domain}&limit=100${cursor}`)
    count += body.items.length
    cursor = body.next === null ? '' : `&cursor=${body.next}`
  } while (cursor !== '')
  return count
}

describe('a large plane', () => {
  it(`of ${POLICIES} policies with overrides is listed, planned and applied while an operator waits`, async () => {
    const send = (path: string, capacity: number) =>
      timed(() => admin.call('POST', path, { documents: documentsOf(POLICIES, capacity, 'large') }))
    const created = await send('/v1/apply', 100)
    const plan = await send('/v1/apply?dryRun=true', 200)
    const changed = await send('/v1/apply', 200)
    const same = await send('/v1/apply', 200)
    const listed = await timed(() => listAll('large'))
    const times = [created, plan, changed, same, listed].map(({ ms }) => ms)
    if (process.env['POLICIES'] !== undefined) {
      const [create, planned, change, unchanged, list] = times
      process.stdout.write(
        `${POLICIES} policies: create ${create} ms, plan ${planned} ms, change ${change} ms, apply unchanged ${unchanged} ms, list ${list} ms\n`,
      )
    }
    expect([created, plan, changed].map(({ result }) => result.status)).toEqual([200, 200, 200])
    expect(plan.result.body.changes.length + plan.result.body.changesLeftOut).toBe(2 * POLICIES)
    expect(same.result.body.revision).toBeNull()
    expect(listed.result).toBe(POLICIES)
    for (const ms of times) expect(ms).toBeLessThan(5 * WAIT_MS_MAX)
  })

  it('takes as many statements for 200 policies as for 2, to create, to change and to compare them', async () => {
    const statements = async (count: number, capacity: number, domain: string): Promise<number> => {
      let queries = 0
      const counter: KyselyPlugin = {
        transformQuery: ({ node }) => {
          queries++
          return node
        },
        transformResult: async ({ result }) => result,
      }
      const request = applySchema.parse({ documents: documentsOf(count, capacity, domain) })
      const context = { actor: 'test', requestId: 'r', reason: null }
      await changePlane(admin.db.withPlugin(counter), context, (plane) =>
        applyDocuments(plane, { request, domains: null, nowMs: 0 }),
      )
      return queries
    }
    for (const capacity of [100, 200, 200]) {
      const few = await statements(2, capacity, 'few')
      expect(await statements(200, capacity, 'many')).toBe(few)
      expect(few).toBeGreaterThan(2)
    }
  })

  it('is answered out of memory as Postgres would answer, and by Postgres once that has something newer', async () => {
    const documents = documentsOf(120, 100, 'kept').map((document, index) => ({
      ...document,
      // As names are, where a language sorts otherwise than a program.
      name: index % 2 === 0 ? `a-${index}` : `a${index}`,
      labels: { team: index % 3 === 0 ? 'search' : 'ads' },
    }))
    await admin.call('POST', '/v1/apply', { documents })
    await admin.follower.stepOnce()
    const unknown = { policiesAt: () => null }
    const queries = [
      {},
      { domain: 'kept' },
      { domain: 'kept', labels: { team: 'search' } },
      { labels: { team: 'none' } },
      { domain: 'kept', after: { domain: 'kept', name: 'a-50' } },
      { after: { domain: 'kept', name: 'b' } },
    ]
    const both = async () =>
      await Promise.all(
        [admin.cache, unknown].map((cache) =>
          Promise.all(
            queries.map((query) =>
              pageOfPolicies({ db: admin.db, cache }, { after: null, limit: 90, ...query }),
            ),
          ),
        ),
      )
    expect(admin.cache.policiesAt(await readStamp(admin.db))?.size).toBeGreaterThan(100)
    const [remembered, read] = await both()
    expect(remembered).toEqual(read)
    expect(remembered?.map((page) => page.length).slice(0, 3)).toEqual([90, 90, 40])

    const plan = () => admin.call('POST', '/v1/apply?dryRun=true', { documents: changed })
    const changed = documents.map((document) => ({
      ...document,
      limits: [aLimit({ capacity: 7 })],
    }))
    const planned = await plan()
    await admin.call('DELETE', '/v1/domains/kept/policies/a-0', undefined, { 'if-match': '*' })
    expect(admin.cache.policiesAt(await readStamp(admin.db))).toBeNull()
    const [newest, stored] = await both()
    expect(newest).toEqual(stored)
    expect(newest?.[1]?.map(({ name }) => name)).not.toContain('a-0')
    const after = await plan()
    expect(planned.body.changes[0]).toMatchObject({ change: 'changed', id: 'kept/a-0' })
    expect(after.body.changes[0]).toMatchObject({ change: 'added', id: 'kept/a-0' })
    await admin.follower.stepOnce()
    expect((await plan()).body).toEqual(after.body)
  })
})
