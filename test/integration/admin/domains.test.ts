import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Admin, aPolicy, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

const path = (domain: string) => `/v1/domains/${domain}`
const read = (domain: string) => admin.call('GET', path(domain))
const put = (domain: string, body: unknown, headers: Record<string, string>) =>
  admin.call('PUT', path(domain), body, headers)
const create = (domain: string, body: unknown = {}) => put(domain, body, { 'if-none-match': '*' })
const remove = (domain: string, headers: Record<string, string> = { 'if-match': '*' }) =>
  admin.call('DELETE', path(domain), undefined, headers)
const SEARCH = { description: 'Search team, #search-oncall', labels: { team: 'search' } }

describe('a domain', () => {
  it('comes with its first policy, undescribed, and counts its policies', async () => {
    await admin.create()
    const found = await read('api')
    const undescribed = { domain: 'api', description: '', labels: {}, policyCount: 1, revision: 0 }
    expect(found).toMatchObject({ status: 200, etag: '"0"', body: undescribed })
    await admin.create({ name: 'other', match: [{ key: 'client' }] })
    expect((await read('api')).body.policyCount).toBe(2)
  })

  it('is described under a precondition, and keeps its revision when nothing differs', async () => {
    expect((await put('api', SEARCH, {})).status).toBe(428)
    expect((await put('api', SEARCH, { 'if-none-match': '*' })).status).toBe(412)
    const described = await put('api', SEARCH, { 'if-match': '"0"' })
    expect(described).toMatchObject({ status: 200, body: { ...SEARCH, policyCount: 2 } })
    expect((await put('api', SEARCH, { 'if-match': described.etag ?? '' })).etag).toBe(
      described.etag,
    )
    expect((await put('api', {}, { 'if-match': '"0"' })).status).toBe(412)
    const [revision] = (await admin.call('GET', '/v1/revisions?limit=1')).body.items
    expect(revision.changes).toEqual([{ action: 'domain.update', kind: 'domain', id: 'api' }])
  })

  it('may be described before it has policies, once', async () => {
    expect(await create('web', SEARCH)).toMatchObject({ status: 201, body: { policyCount: 0 } })
    expect((await create('web', SEARCH)).status).toBe(412)
  })

  it('is listed in pages, and by labels', async () => {
    const first = await admin.call('GET', '/v1/domains?limit=1')
    expect(first.body.items).toMatchObject([{ domain: 'api' }])
    const second = await admin.call('GET', `/v1/domains?limit=1&cursor=${first.body.next}`)
    expect(second.body).toMatchObject({ items: [{ domain: 'web' }], next: null })
    await create('dull')
    const labelled = await admin.call('GET', '/v1/domains?labels=team%3Dsearch')
    expect(labelled.body.items.map(({ domain }: { domain: string }) => domain)).toEqual([
      'api',
      'web',
    ])
  })

  it('that has policies is not deleted, and the refusal names them', async () => {
    const refused = await remove('api')
    expect(refused).toMatchObject({ status: 409, body: { code: 'QUOTA_IN_USE' } })
    expect(refused.body.detail).toContain('api/other, api/per-tenant')
    expect((await remove('dull', {})).status).toBe(428)
    expect((await remove('dull')).status).toBe(204)
    const gone = await read('dull')
    expect(gone).toMatchObject({ status: 404, body: { code: 'QUOTA_DOMAIN_NOT_FOUND' } })
  })

  it('stays as it is when its policies come, change and go', async () => {
    const before = await read('web')
    await admin.create({ domain: 'web' })
    await admin.call('DELETE', '/v1/domains/web/policies/per-tenant', undefined, {
      'if-match': '*',
    })
    expect((await read('web')).body).toEqual(before.body)
  })

  it.each([
    [{ descripton: 'x' }, 'descripton'],
    [{ description: 7 }, 'description'],
    [{ description: 'x'.repeat(4_001) }, 'description'],
    [{ labels: { team: 'a b' } }, 'labels.team'],
    [{ domain: 'other' }, 'domain'],
  ])('is refused when it says %j, naming the field', async (body, field) => {
    const refused = await create('refused', body)
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ field }] } })
    expect(refused.body.errors[0].fix).not.toBe('')
    expect((await read('refused')).status).toBe(404)
  })

  it('is planned without being written, and written once however often it is sent', async () => {
    const planned = await admin.call('PUT', `${path('planned')}?dryRun=true`, SEARCH, {
      'if-none-match': '*',
    })
    expect(planned.body.changes).toMatchObject([{ kind: 'domain', id: 'planned', change: 'added' }])
    expect((await read('planned')).status).toBe(404)
    const headers = { 'if-none-match': '*', 'idempotency-key': 'one-domain' }
    const first = await put('planned', SEARCH, headers)
    expect(await put('planned', SEARCH, headers)).toMatchObject({ status: 201, body: first.body })
  })

  it('stands in the audit log with its reason, where its domain alone is asked for too', async () => {
    await put('planned', {}, { 'if-match': '*', 'x-change-reason': 'handed over' })
    const { body } = await admin.call('GET', '/v1/audit?domain=planned')
    expect(body.items).toMatchObject([
      { action: 'domain.update', reason: 'handed over', before: SEARCH },
      { action: 'domain.create', before: null, after: SEARCH },
    ])
  })
})

describe('an apply', () => {
  const apply = (body: unknown) => admin.call('POST', '/v1/apply', body)

  it('describes domains and puts policies as one revision, or neither', async () => {
    const domains = [{ domain: 'pay', ...SEARCH }]
    const policy = aPolicy({ domain: 'pay' })
    const { body } = await apply({ domains, documents: [policy] })
    expect(body).toMatchObject({
      domains: [{ domain: 'pay', outcome: 'created' }],
      items: [{ domain: 'pay', outcome: 'created' }],
    })
    const stale = await apply({
      domains: [{ domain: 'pay', ifMatch: '"1"' }],
      documents: [aPolicy({ domain: 'pay', name: 'late', match: [{ key: 'late' }] })],
    })
    expect(stale.status).toBe(412)
    expect((await read('pay')).body).toMatchObject({ ...SEARCH, policyCount: 1 })
    const again = await apply({ domains, documents: [policy] })
    expect(again.body).toMatchObject({ revision: null, domains: [{ outcome: 'unchanged' }] })
  })

  it('refuses a domain twice and one that says nonsense, naming where', async () => {
    const twice = await apply({ domains: [{ domain: 'x' }, { domain: 'x' }] })
    expect(twice.body.errors).toMatchObject([{ field: 'domains[1].domain' }])
    const wrong = await apply({ domains: [{ domain: 'x', labels: [] }] })
    expect(wrong.body.errors).toMatchObject([{ field: 'domains[0].labels' }])
  })
})

describe('a rollback', () => {
  it('brings back what was said of domains, and takes those away that were not there', async () => {
    const { etag: was = '' } = await admin.call('GET', '/v1/revisions?limit=1')
    const before = await read('api')
    await put('api', {}, { 'if-match': '*' })
    await create('late')
    await admin.create({ domain: 'late' })
    await remove('web')
    const to = was.replaceAll('"', '')
    const { body } = await admin.call('POST', `/v1/revisions/${to}/rollback`, {})
    const outcomes = body.domains.map((one: { domain: string; outcome: string }) => [
      one.domain,
      one.outcome,
    ])
    expect(Object.fromEntries(outcomes)).toEqual({
      api: 'updated',
      web: 'created',
      late: 'deleted',
    })
    const { revision: _r, ...said } = before.body
    expect((await read('api')).body).toMatchObject(said)
    expect((await read('late')).status).toBe(404)
  })

  it('says of a domain that comes back with its policies that it is created, in its answer, its plan, the log and the diff', async () => {
    await admin.create({ domain: 'back' })
    await put('back', SEARCH, { 'if-match': '*' })
    const { etag: was = '' } = await admin.call('GET', '/v1/revisions?limit=1')
    const removed = await admin.call('DELETE', POLICY.replace('/api/', '/back/'), undefined, {
      'if-match': '*',
    })
    expect(removed.status).toBe(204)
    expect((await remove('back')).status).toBe(204)
    const url = `/v1/revisions/${was.replaceAll('"', '')}/rollback`
    const planned = await admin.call('POST', `${url}?dryRun=true`, {})
    const own = ({ kind }: { kind: string }) => kind === 'domain'
    expect(planned.body.changes.filter(own)).toMatchObject([{ id: 'back', change: 'added' }])
    const { body } = await admin.call('POST', url, {})
    expect(body.domains).toMatchObject([{ domain: 'back', outcome: 'created' }])
    const log = await admin.call('GET', '/v1/audit?domain=back&objectKind=domain&limit=1')
    expect(log.body.items).toMatchObject([{ action: 'domain.create', before: null, after: SEARCH }])
    const diff = await admin.call('GET', `/v1/revisions/${body.revision}/diff`)
    expect(diff.body.items.filter(own)).toMatchObject([{ id: 'back', change: 'added' }])
  })
})

describe('a token that is limited to domains', () => {
  it('reads and describes those, and no other', async () => {
    const made = await admin.call('POST', '/v1/tokens', {
      name: 'api-team',
      scopes: ['quota:read', 'quota:write'],
      domains: ['api'],
    })
    const own = { authorization: `Bearer ${made.body.token}` }
    const as = (method: 'GET' | 'PUT' | 'POST', url: string, body?: unknown) =>
      admin.call(method, url, body, { ...own, ...(method === 'PUT' && { 'if-match': '*' }) })
    expect((await as('GET', path('api'))).status).toBe(200)
    expect((await as('GET', '/v1/domains?domain=api')).body.items).toHaveLength(1)
    expect((await as('PUT', path('api'), SEARCH)).status).toBe(200)
    expect((await as('GET', '/v1/domains')).status).toBe(403)
    expect((await as('GET', path('web'))).status).toBe(403)
    expect((await as('PUT', path('web'), SEARCH)).status).toBe(403)
    expect((await as('GET', POLICY.replace('/api/', '/web/'))).status).toBe(403)
    const both = { domains: [{ domain: 'api' }, { domain: 'web' }] }
    expect((await as('POST', '/v1/apply', both)).status).toBe(403)
    expect((await as('POST', '/v1/apply', { domains: [{ domain: 'api' }] })).status).toBe(200)
  })
})
