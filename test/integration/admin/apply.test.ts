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

describe('what is wrong with an override', () => {
  const tiers = { pro: { 'per-second': { capacity: 9 } } }
  const fieldsOf = ({
    status,
    body,
  }: {
    status: number
    body: { errors: { field: string }[] }
  }) => [status, ...body.errors.map(({ field }) => field)]

  it('is told where it stands among the documents', async () => {
    const past = { value: 'late', unlimited: true, expiresAt: '2020-01-01T00:00:00Z' }
    const overrides = [{ value: 'acme', unlimited: true }, past, { value: 'x', tier: 'gone' }]
    const limits = { 'per-day': { capacity: 1 } }
    const numbers = own('b', { overrides: [{ value: 'y', limits }] })
    expect(fieldsOf(await apply([own('a'), own('c', { tiers, overrides }), numbers]))).toEqual([
      400,
      'documents[1].overrides[1].expiresAt',
      'documents[1].overrides[2].tier',
      'documents[2].overrides[0].limits.per-day',
    ])
  })

  it('is told where it stands also when the tier that it names went away', async () => {
    const overrides = [
      { value: 'x', unlimited: true },
      { value: 'y', tier: 'pro' },
    ]
    expect((await apply([own('a', { tiers, overrides })])).status).toBe(200)
    expect(fieldsOf(await apply([own('b'), own('a', { overrides })]))).toEqual([
      400,
      'documents[1].overrides[1].tier',
    ])
    // Where nobody sent the override, it is the tiers that are at fault.
    expect(fieldsOf(await apply([own('a')]))).toEqual([400, 'documents[0].tiers'])
  })

  it('is told of the second of two for one tenant', async () => {
    const overrides = ['x', 'y', 'x'].map((value) => ({ value, deny: true }))
    const refused = await apply([own('a', { overrides })])
    expect(fieldsOf(refused)).toEqual([400, 'documents[0].overrides[2].value'])
    expect(refused.body.errors[0].message).toContain('overrides[0]')
  })

  it('is told by document where all together are too large, by index in a batch, and by field alone', async () => {
    const overrides = Array.from({ length: 900 }, (_, at) => ({
      value: `${at}-${'x'.repeat(900)}`,
      deny: true,
    }))
    expect(fieldsOf(await apply([own('a'), own('b', { overrides })]))).toEqual([
      400,
      'documents[1].overrides',
    ])
    await apply([own('a', { tiers })])
    const path = `/v1/domains/${domain}/policies/a/overrides`
    const set = [
      { value: 'x', tier: 'pro' },
      { value: 'y', tier: 'gone' },
    ]
    expect(fieldsOf(await admin.call('POST', path, { set }))).toEqual([400, 'set[1].tier'])
    expect(fieldsOf(await admin.call('PUT', `${path}/y`, { tier: 'gone' }))).toEqual([400, 'tier'])
  })
})

it('what one document rests on, or holds that is no text, is told where it stands', async () => {
  await apply([own('a')])
  const stale = await apply([own('b'), own('a', { ifMatch: '"1"' })])
  expect(stale).toMatchObject({
    status: 412,
    body: { errors: [{ field: 'documents[1].ifMatch' }] },
  })
  const noTag = await apply([own('b'), own('a', { ifMatch: 'one' })])
  expect(noTag).toMatchObject({
    status: 400,
    body: { errors: [{ field: 'documents[1].ifMatch' }] },
  })
  const domains = [{ domain: `${domain}-new`, ifMatch: '"1"' }]
  expect((await apply([], { domains })).body.errors).toMatchObject([
    { field: 'domains[0].ifMatch' },
  ])
  const nul = await apply([own('b'), own('a', { description: 'a\0b' })])
  expect(nul.body.errors).toMatchObject([{ field: 'documents[1].description' }])
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

describe('pruning of domains', () => {
  const said = (name: string, rest: object = {}) => ({ domain: name, ...rest })
  const labels = () => ({ team: domain })
  const has = async (name: string) =>
    (await admin.call('GET', `/v1/domains/${name}`)).status === 200

  it('removes labelled ones of which no document speaks, with their policies, and says so before', async () => {
    const [old, kept, other] = [`${domain}-old`, `${domain}-kept`, `${domain}-other`]
    const domains = [old, kept, domain].map((name) => said(name, { labels: labels() }))
    await apply([own('a', { labels: labels() }), own('b', { domain: old, labels: labels() })], {
      domains: [...domains, said(other)],
    })
    const next = {
      documents: [own('a', { labels: labels() })],
      domains: [said(kept, { labels: labels() })],
      prune: { labels: labels() },
    }
    const planned = await admin.call('POST', '/v1/apply?dryRun=true', next)
    expect(planned.body.changes).toMatchObject([
      { kind: 'policy', id: `${old}/b`, change: 'removed' },
      { kind: 'domain', id: old, change: 'removed' },
    ])
    expect(await has(old)).toBe(true)
    const { body } = await admin.call('POST', '/v1/apply', next)
    expect(body.domains).toEqual([
      { domain: kept, outcome: 'unchanged', revision: expect.any(Number) },
      { domain: old, outcome: 'deleted', revision: null },
    ])
    // The one with the policy a is spoken of by that, and the one without the label is not meant.
    const left = await Promise.all([old, kept, domain, other].map(has))
    expect(left).toEqual([false, true, true, true])
    const { body: log } = await admin.call('GET', `/v1/audit?domain=${old}&objectKind=domain`)
    expect(log.items[0]).toMatchObject({ action: 'domain.delete', before: { labels: labels() } })
  })

  it('is refused where one has policies that stay, naming them and what to do, and nothing is changed', async () => {
    const shared = `${domain}-shared`
    await apply([own('a', { labels: labels() }), own('theirs', { domain: shared })], {
      domains: [said(shared, { labels: labels() })],
    })
    const refused = await apply([], { prune: { labels: labels() } })
    expect(refused).toMatchObject({ status: 409, body: { code: 'QUOTA_IN_USE' } })
    expect(refused.body.errors).toMatchObject([
      { field: 'prune.labels', message: expect.stringContaining(`${shared}/theirs`) },
    ])
    expect(refused.body.errors[0].fix).toContain('name the domain among the documents')
    expect([await names(), await has(shared)]).toEqual([['a'], true])
  })

  it('stays within the domains of the token', async () => {
    await apply([], { domains: [said(`${domain}-mine`, { labels: labels() })] })
    const ask = { name: `prunes-${domain}`, scopes: ['quota:write'], domains: ['elsewhere'] }
    const { body } = await admin.call('POST', '/v1/tokens', ask)
    const sent = { domains: [said('elsewhere')], prune: { labels: labels() } }
    const headers = { authorization: `Bearer ${body.token}` }
    expect((await admin.call('POST', '/v1/apply', sent, headers)).status).toBe(200)
    expect(await has(`${domain}-mine`)).toBe(true)
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
