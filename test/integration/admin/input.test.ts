import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Admin, aLimit, aPolicy, POLICY, startAdmin, TOKEN } from './admin-harness.ts'

let admin: Admin
beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
})
afterAll(async () => await admin.close())

const put = (body: unknown, headers: Record<string, string> = { 'if-none-match': '*' }) =>
  admin.call('PUT', POLICY, body, headers)
const withLimit = (changes: object) => aPolicy({ limits: [aLimit(changes)] })

describe('bad input', () => {
  const notTokens = [-5, 1.5, '10', 1e21, null, undefined, 2 ** 53]
  const cases: [what: string, body: unknown, field: string][] = [
    ...['capacity', 'windowMs'].flatMap((field) =>
      notTokens.map((value): [string, unknown, string] => [
        `${field} ${String(value)}`,
        withLimit({ [field]: value }),
        `limits[0].${field}`,
      ]),
    ),
    ['windowMs 0', withLimit({ windowMs: 0 }), 'limits[0].windowMs'],
    ['burst -1', withLimit({ burst: -1 }), 'limits[0].burst'],
    ['an unregistered region', withLimit({ split: { mars: 100 } }), 'limits[0].split.mars'],
    ['weights that sum to 90', withLimit({ split: { 'us-east-1': 90 } }), 'limits[0].split'],
    ['an empty domain', aPolicy({ domain: '' }), 'domain'],
    ['another name than the path', aPolicy({ name: 'other' }), 'name'],
    ['another domain than the path', aPolicy({ domain: 'other' }), 'domain'],
    ['an unknown field', aPolicy({ limt: 1 }), 'limt'],
    ['an unknown field of a limit', withLimit({ limt: 1 }), 'limits[0].limt'],
    ['a list', [], 'body'],
    [
      'a weight that is a text',
      withLimit({ split: { 'us-east-1': '100' } }),
      'limits[0].split.us-east-1',
    ],
    [
      'a region that is no name',
      withLimit({ split: { 'US East': 100 } }),
      'limits[0].split.US East',
    ],
  ]
  it.each(cases)(
    '%s is refused by its field, with a fix, and nothing is stored (B125)',
    async (_what, body, field) => {
      const answer = await put(body)
      expect(answer.status).toBe(400)
      expect(answer.headers['content-type']).toContain('application/problem+json')
      expect(answer.body).toMatchObject({
        status: 400,
        code: 'QUOTA_INVALID_INPUT',
        title: expect.any(String),
      })
      expect(answer.body.errors[0]).toMatchObject({ field, message: expect.any(String) })
      for (const error of answer.body.errors) expect(error.fix).toEqual(expect.any(String))
      expect((await admin.call('GET', POLICY)).status).toBe(404)
    },
  )

  it.each([
    ['malformed JSON', '{"domain":', 'application/json', 400, 'body'],
    ['no body', '', 'application/json', 400, 'body'],
    ['a polluting key', '{"__proto__":{}}', 'application/json', 400, 'body'],
    ['a body without end', `"${'x'.repeat(300_000)}"`, 'application/json', 413, 'body'],
    ['another content type', 'domain: api', 'application/yaml', 415, 'content-type'],
  ])(
    '%s is refused by the part that is wrong, with a fix',
    async (_what, payload, type, status, field) => {
      const headers = {
        authorization: `Bearer ${TOKEN}`,
        'content-type': type,
        'if-none-match': '*',
      }
      const response = await admin.app.inject({ method: 'PUT', url: POLICY, headers, payload })
      expect(response.statusCode).toBe(status)
      expect(response.json()).toMatchObject({
        status,
        code: 'QUOTA_INVALID_INPUT',
        errors: [{ field, message: expect.any(String), fix: expect.any(String) }],
      })
    },
  )

  it.each([
    '/v1/domains/api/policies/Not%20A%20Name',
    '/v1/domains/a%20b/policies/x',
    '/v1/regions/US',
  ])('the path %s is refused by the part that is wrong', async (url) => {
    const answer = await admin.call('GET', url)
    expect(answer.status).toBe(400)
    expect(['domain', 'name', 'id']).toContain(answer.body.errors[0].field)
  })

  it('a path that is no URL is a problem document', async () => {
    const answer = await admin.call('GET', '/v1/domains/api/policies/%E0%A4%A')
    expect(answer.status).toBe(400)
    expect(answer.body.errors[0]).toMatchObject({ field: 'path', fix: expect.any(String) })
  })

  it.each(['0', '101', '1.5', 'ten'])('a page of %s is refused with a fix', async (limit) => {
    const { status, body } = await admin.call('GET', `/v1/policies?limit=${limit}`)
    expect(status).toBe(400)
    expect(body.errors).toEqual([
      {
        field: 'limit',
        message: expect.stringMatching(
          `^must be a whole number from 1 to 100 in decimal digits, not "?${limit}"?$`,
        ),
        fix: 'give a whole number from 1 to 100, or leave it out',
      },
    ])
  })

  it('a path that does not exist is a problem document', async () => {
    expect(await admin.call('GET', '/v1/nothing')).toMatchObject({
      status: 404,
      body: { status: 404 },
    })
  })

  it('names every region that is missing, and how to register it', async () => {
    const { body } = await put(withLimit({ split: { mars: 50, venus: 50 } }))
    expect(body.errors.map((error: { field: string }) => error.field)).toEqual([
      'limits[0].split.mars',
      'limits[0].split.venus',
    ])
    expect(body.errors[0].fix).toContain('PUT /v1/regions/mars')
  })
})

describe('authentication', () => {
  const call = (headers: Record<string, string>) =>
    admin.app.inject({ method: 'GET', url: '/v1/policies', headers })

  it.each([
    ['no token', {}],
    ['another token', { authorization: 'Bearer other' }],
    ['a longer token', { authorization: `Bearer ${TOKEN}x` }],
    ['no scheme', { authorization: TOKEN }],
    ['another scheme', { authorization: `Basic ${TOKEN}` }],
  ])('is refused with %s', async (_what, headers) => {
    const response = await call(headers)
    expect(response.statusCode).toBe(401)
    expect(response.headers['www-authenticate']).toMatch(/^Bearer\b/)
    expect(response.json()).toMatchObject({ status: 401, code: 'QUOTA_UNAUTHENTICATED' })
    expect(response.body).not.toContain(TOKEN)
  })

  it('guards every route but health, metrics and the OpenAPI document', async () => {
    const { paths } = (await admin.call('GET', '/openapi.json')).body
    for (const [path, methods] of Object.entries<object>(paths)) {
      if (!path.startsWith('/v1/')) continue
      for (const method of Object.keys(methods)) {
        const url = path.replaceAll(/\{\w+\}/g, 'x')
        const response = await admin.app.inject({ method: method.toUpperCase() as 'GET', url })
        expect(response.statusCode, `${method} ${path}`).toBe(401)
      }
    }
    for (const url of ['/livez', '/readyz', '/metrics', '/openapi.json']) {
      expect((await admin.app.inject({ method: 'GET', url })).statusCode, url).toBe(200)
    }
  })
})

describe('a request id', () => {
  it('of the caller comes back in the answer and stands in the audit log', async () => {
    const headers = { 'x-request-id': 'ticket-42', 'x-change-reason': 'launch day' }
    const answer = await admin.call('PUT', '/v1/regions/ap-south-1', {}, headers)
    expect(answer.headers['x-request-id']).toBe('ticket-42')
    const audit = await admin.call('GET', '/v1/audit?limit=1')
    expect(audit.body.items[0]).toMatchObject({ requestId: 'ticket-42', reason: 'launch day' })
  })

  it('that is not fit for a log is replaced by one of our own', async () => {
    const answer = await admin.call('GET', '/v1/regions', undefined, {
      'x-request-id': 'a b"\u00e9',
    })
    expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('the OpenAPI document', () => {
  it('is 3.1 and describes every route with its bodies and failures', async () => {
    const { body } = await admin.call('GET', '/openapi.json')
    expect(body.openapi).toMatch(/^3\.1/)
    const paths = Object.keys(body.paths)
    for (const path of [
      '/healthz',
      '/livez',
      '/metrics',
      '/readyz',
      '/v1/apply',
      '/v1/audit',
      '/v1/domains/{domain}/policies/{name}',
      '/v1/domains/{domain}/policies/{name}/overrides',
      '/v1/domains/{domain}/policies/{name}/overrides/{value}',
      '/v1/domains/{domain}/policies/{name}/reset',
      '/v1/domains/{domain}/policies/{name}/status',
      '/v1/policies',
      '/v1/regions',
      '/v1/regions/{id}',
      '/v1/regions/{id}/drain',
      '/v1/regions/{id}/remove',
      '/v1/regions/{id}/resume',
      '/v1/revisions',
      '/v1/revisions/{number}',
      '/v1/revisions/{number}/diff',
      '/v1/revisions/{number}/rollback',
      '/v1/shares',
      '/v1/tokens',
      '/v1/tokens/{id}',
      '/v1/usage',
      '/v1/whoami',
    ]) {
      expect(paths).toContain(path)
    }
    const policyPut = body.paths['/v1/domains/{domain}/policies/{name}'].put
    expect(policyPut.requestBody.content['application/json'].schema).toBeDefined()
    expect(Object.keys(policyPut.responses).sort()).toEqual(['200', '201', '4XX', '5XX'])
    const queries = policyPut.parameters.map(({ name }: { name: string }) => name)
    expect(queries).toEqual(expect.arrayContaining(['dryRun', 'idempotency-key']))
  })
})

describe('a query', () => {
  it('that no route knows is refused by its name, so that a misspelt dryRun carries nothing out', async () => {
    const body = aPolicy({ domain: 'misspelt' })
    const asked = [
      await admin.call('POST', '/v1/policies?dryrun=true', body),
      await admin.call('POST', '/v1/policies?dry-run=true', body),
      await admin.call('POST', '/v1/revisions/1/rollback?dry_run=true'),
      await admin.call('GET', '/v1/whoami?domain=api'),
      await admin.call('GET', '/v1/regions?limit=1'),
    ]
    for (const { status, body: refusal } of asked) {
      expect(status).toBe(400)
      expect(refusal.errors[0]).toMatchObject({ message: 'is not a field of this object' })
    }
    expect(asked.map(({ body: { errors } }) => errors[0].field)).toEqual([
      'dryrun',
      'dry-run',
      'dry_run',
      'domain',
      'limit',
    ])
    expect((await admin.call('GET', '/v1/policies?domain=misspelt')).body.items).toEqual([])
  })
})

describe('a filter by labels', () => {
  it('is refused where it is not written so, and never taken for none', async () => {
    await put(aPolicy())
    for (const labels of ['__proto__=x', '__proto__=x,team=a', '=x', 'team', 'team=a=b', ',']) {
      const path = `/v1/policies?labels=${encodeURIComponent(labels)}`
      const { status, body } = await admin.call('GET', path)
      expect(status, labels).toBe(400)
      expect(body.errors[0].field).toBe('labels')
    }
    expect((await admin.call('GET', '/v1/policies?labels=team=nobody')).body.items).toEqual([])
  })
})

describe('a cursor of one’s own making', () => {
  const cursor = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
  const far = Number.MAX_SAFE_INTEGER
  const history = '/v1/usage/history?domain=api&policy=per-tenant'
  const cursors: readonly (readonly [path: string, cursor: string])[] = [
    ['/v1/usage/top?', cursor(far, 0, 0, 'x')],
    ['/v1/usage/top?', cursor(-far, 0, 0, 'x')],
    ['/v1/usage/top?', cursor(0, far, -far, 'x')],
    [`${history}&`, cursor(far, far)],
    [`${history}&`, cursor(0, far)],
    [`${history}&`, cursor(8e15, 1)],
    [`${history}&resolution=hour&limit=1000&`, cursor(0, Date.UTC(9999, 11, 31))],
    ['/v1/audit?', cursor(far)],
    ['/v1/revisions?', cursor(far)],
    ['/v1/emergency-actions?', cursor(-far)],
    ['/v1/policies?', cursor('zz', 'zz')],
    ['/v1/domains?', cursor({ domain: 'a' })],
  ]
  it.each(cursors)('of %s%s is refused or shows a page, and fails nowhere', async (path, text) => {
    await put(aPolicy())
    await admin.follower.stepOnce()
    const { status, body } = await admin.call('GET', `${path}cursor=${text}`)
    expect([200, 400]).toContain(status)
    if (status === 400) expect(body.errors[0].field).toBe('cursor')
  })

  it('or a time beyond what RFC 3339 can write in UTC fails no history either', async () => {
    await put(aPolicy())
    await admin.follower.stepOnce()
    for (const from of ['9999-12-31T23:59:59-23:59', '0000-01-01T00:00:00%2B23:59']) {
      const answer = await admin.call('GET', `${history}&from=${from}&resolution=hour`)
      expect(answer.status).toBe(200)
    }
  })
})

describe('a body that is nested beyond all reason', () => {
  it.each([
    ['POST', '/v1/policies', 'lists'],
    ['POST', '/v1/apply', 'objects'],
    ['POST', '/v1/emergency-actions', 'lists'],
    ['POST', '/v1/tokens', 'objects'],
    ['POST', '/v1/explain', 'lists'],
    ['PUT', POLICY, 'objects'],
  ] as const)('is refused by its field: %s %s of %s', async (method, url, of) => {
    const [open, close] = of === 'lists' ? ['[', ']'] : ['{"a":', '}']
    const deep = `${open.repeat(20_000)}1${close.repeat(20_000)}`
    for (const payload of [deep, `{"domain":${deep}}`]) {
      const headers = { 'content-type': 'application/json', 'if-none-match': '*' }
      const answer = await admin.call(method, url, payload, headers)
      expect(answer.status).toBe(400)
      expect(answer.body.errors[0]).toMatchObject({
        message: expect.stringContaining('levels deep'),
        fix: expect.any(String),
      })
    }
  })
})
