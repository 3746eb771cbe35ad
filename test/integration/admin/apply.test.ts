import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Admin, aLimit, aPolicy, startAdmin } from './admin-harness.ts'

let admin: Admin
let nextDomain = 0
let domain: string

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())
beforeEach(() => {
  domain = `domain-${++nextDomain}`
})

const own = (name: string, changes: object = {}) =>
  aPolicy({ domain, name, match: [{ key: name }], ...changes })
const apply = (documents: readonly object[], more: object = {}) =>
  admin.call('POST', '/v1/apply', { documents, ...more })
const read = (name: string) => admin.call('GET', `/v1/domains/${domain}/policies/${name}`)
const outcomes = ({ body }: { body: { items: { name: string; outcome: string }[] } }) =>
  Object.fromEntries(body.items.map(({ name, outcome }) => [name, outcome]))
const names = async (): Promise<string[]> =>
  (await admin.call('GET', `/v1/policies?domain=${domain}`)).body.items.map(
    ({ name }: { name: string }) => name,
  )

describe('documents that are applied together', () => {
  it('are one revision, with one audit entry each', async () => {
    const before = (await sql`select 1 from revisions`.execute(admin.db)).rows.length
    const applied = await apply([
      own('a'),
      own('b', { limits: [aLimit({ candidate: { capacity: 5 } })] }),
    ])
    expect(applied).toMatchObject({ status: 200 })
    expect(outcomes(applied)).toEqual({ a: 'created', b: 'created' })
    const { rows } = await sql<{ number: number; first: number }>`
      select number, first from revisions order by number desc`.execute(admin.db)
    expect(rows.length).toBe(before + 1)
    expect(rows[0]).toEqual({ number: applied.body.revision, first: applied.body.revision - 1 })
    const { body } = await admin.call('GET', `/v1/audit?limit=2`)
    expect(body.items.map(({ revision }: { revision: number }) => revision)).toEqual([
      applied.body.revision,
      applied.body.revision,
    ])
    expect((await read('b')).body.limits[0].candidate).toMatchObject({ capacity: 5 })
  })

  it('change what differs, keep the revision of what does not, and keep counters', async () => {
    await apply([own('a'), own('b')])
    const [a, b] = [await read('a'), await read('b')]
    const applied = await apply([own('a'), own('b', { limits: [aLimit({ capacity: 50 })] })])
    expect(outcomes(applied)).toEqual({ a: 'unchanged', b: 'updated' })
    expect((await read('a')).body).toEqual(a.body)
    const changed = await read('b')
    expect(changed.body.limits[0]).toMatchObject({ capacity: 50, id: b.body.limits[0].id })
    expect(changed.body.revision).toBe(applied.body.items[1].revision)
    expect(await apply([own('a')])).toMatchObject({ body: { revision: null } })
  })

  it('are applied wholly or not at all, and every problem is told with its document and field', async () => {
    const bad = own('b', { limits: [aLimit({ split: { 'us-east-1': 60, 'ap-south-1': 40 } })] })
    const small = own('c', { limits: [aLimit({ capacity: 1 })] })
    const refused = await apply([own('a'), bad, small])
    expect(refused.status).toBe(400)
    expect(refused.body.errors.map(({ field }: { field: string }) => field)).toEqual([
      'documents[1].limits[0].split.ap-south-1',
      'documents[2].limits[0].capacity',
    ])
    expect(await apply([own('a'), own('a')])).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'documents[1].name' }] },
    })
    expect(await apply([{ ...own('a'), limt: [] }])).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'documents[0].limt' }] },
    })
    expect(await names()).toEqual([])
  })

  it('are refused when one was changed since its If-Match', async () => {
    await apply([own('a')])
    const { etag = '' } = await read('a')
    const stale = { ...own('a', { description: 'mine' }), ifMatch: '"1"' }
    expect((await apply([own('b'), stale])).status).toBe(412)
    expect(await names()).toEqual(['a'])
    expect((await apply([own('b'), { ...stale, ifMatch: etag }])).status).toBe(200)
    expect(await names()).toEqual(['a', 'b'])
  })

  it('may exchange their matches, and may not have the same', async () => {
    await apply([own('a'), own('b')])
    const a = own('a', { match: [{ key: 'b' }] })
    const b = own('b', { match: [{ key: 'a' }] })
    expect(await apply([a])).toMatchObject({
      status: 409,
      body: { errors: [{ field: 'documents[0].match' }] },
    })
    expect(outcomes(await apply([a, b]))).toEqual({ a: 'updated', b: 'updated' })
    expect((await read('a')).body.match).toEqual([{ key: 'b' }])
    expect(
      (await apply([own('c', { match: [{ key: 'x' }] }), own('d', { match: [{ key: 'x' }] })]))
        .status,
    ).toBe(409)
  })

  it('bring the whole set of overrides where they name any, and leave it where they do not', async () => {
    const overridden = own('a', {
      tiers: { pro: { 'per-second': { capacity: 9 } } },
      overrides: [
        { value: 'acme', tier: 'pro' },
        { value: 'mallory', deny: true },
      ],
    })
    await apply([overridden])
    const { overrides: _, ...plain } = overridden as typeof overridden & { overrides: unknown }
    expect(outcomes(await apply([plain]))).toEqual({ a: 'unchanged' })
    await apply([{ ...plain, overrides: [{ value: 'acme', unlimited: true }] }])
    const { body } = await admin.call('GET', `/v1/domains/${domain}/policies/a/overrides`)
    expect(body.items).toEqual([{ value: 'acme', unlimited: true }])
  })
})

describe('pruning', () => {
  const labels = { team: 'search' }

  it('removes labelled policies that no document names, and no other', async () => {
    await apply([own('a', { labels }), own('b', { labels }), own('c')])
    const applied = await apply([own('a', { labels })], { prune: { labels } })
    expect(outcomes(applied)).toEqual({ a: 'unchanged', b: 'deleted' })
    expect(await names()).toEqual(['a', 'c'])
    const gone = own('b', { labels })
    // What it matched is free for others in the same request.
    await apply([gone])
    await apply([own('d', { match: gone.match, labels }), own('a', { labels })], {
      prune: { labels },
    })
    expect(await names()).toEqual(['a', 'c', 'd'])
  })

  it('needs a label, since none would be every policy', async () => {
    expect(await apply([], { prune: { labels: {} } })).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'prune.labels' }] },
    })
  })

  it('and documents stay within the domains of the token', async () => {
    await apply([own('a', { labels })])
    const ask = { name: `of-${domain}`, scopes: ['quota:write'], domains: ['elsewhere'] }
    const { body } = await admin.call('POST', '/v1/tokens', ask)
    const headers = { authorization: `Bearer ${body.token}` }
    const theirs = aPolicy({ domain: 'elsewhere', match: [{ key: domain }] })
    const sent = { documents: [theirs], prune: { labels } }
    expect((await admin.call('POST', '/v1/apply', sent, headers)).status).toBe(200)
    expect(await names()).toEqual(['a'])
    const both = { documents: [theirs, own('a')] }
    expect((await admin.call('POST', '/v1/apply', both, headers)).status).toBe(403)
  })
})

describe('labels', () => {
  it('are kept, shown, searched by, and removed', async () => {
    const labels = { team: 'search', 'example.org/stage': 'live' }
    await apply([own('a', { labels }), own('b')])
    expect((await read('a')).body.labels).toEqual(labels)
    const found = await admin.call('GET', `/v1/policies?domain=${domain}&labels=team=search`)
    expect(found.body.items.map(({ name }: { name: string }) => name)).toEqual(['a'])
    expect(outcomes(await apply([own('a', { labels: {} })]))).toEqual({ a: 'updated' })
    expect(outcomes(await apply([own('a', { labels: {} })]))).toEqual({ a: 'unchanged' })
    expect((await read('a')).body.labels).toBeUndefined()
  })

  it.each([
    ['a key with a space', { 'a b': 'c' }],
    ['a value with a slash', { a: 'b/c' }],
    ['a number', { a: 1 }],
    ['33 of them', Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`k${i}`, 'v']))],
  ])('are refused with %s', async (_mistake, labels) => {
    const { status, body } = await apply([own('a', { labels })])
    expect(status).toBe(400)
    expect(body.errors[0].field).toMatch(/^documents\[0\]\.labels/)
  })
})
