import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Json } from '../../support/fuzz-api.ts'
import { type Admin, AUTHORIZED, POLICY, startAdmin } from './admin-harness.ts'

let admin: Admin
let document: Json

beforeAll(async () => {
  admin = await startAdmin()
  await admin.register('us-east-1', 'eu-west-1')
  await admin.create()
  await admin.follower.stepOnce()
  document = (await admin.app.inject({ url: '/openapi.json' })).json()
})
afterAll(async () => await admin.close())

/** How the schema library words what it refuses, which says nothing to who calls the API. */
const LIBRARY_WORDS =
  /^(Invalid|Too (big|small)|Unrecognized|Unknown)|received undefined|expected (string|number|object|array|boolean|int)/

/** What may stand where something else is wanted. */
const MISFITS: readonly unknown[] = [
  null,
  true,
  -1,
  1.5,
  '',
  'no such thing',
  'x'.repeat(2_100),
  [],
  {},
]

interface Asked {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  readonly url: string
  readonly body?: unknown
}

it('every refusal of a missing or mistyped field names the field, what is expected and the fix, in words of our own', async () => {
  const asked = Object.entries<Json>(document.paths)
    .filter(([path]) => path.startsWith('/v1/') && path !== '/v1/stream')
    .flatMap(([path, methods]) =>
      Object.entries<Json>(methods).flatMap(([method, operation]) =>
        misfitsOf(method.toUpperCase() as Asked['method'], path, operation),
      ),
    )
  const refused: Refused[] = []
  for (const one of asked) refused.push(...(await refusalsOf(one)))
  const wrong = refused.filter(
    ({ message, fix }) => typeof fix !== 'string' || LIBRARY_WORDS.test(message),
  )
  expect(wrong.slice(0, 20)).toEqual([])
  expect(refused.length).toBeGreaterThan(500)
})

interface Refused {
  readonly request: string
  readonly field: string
  readonly message: string
  readonly fix?: string
}

async function refusalsOf({ method, url, body }: Asked): Promise<readonly Refused[]> {
  const response = await admin.app.inject({
    method,
    url,
    headers: { ...AUTHORIZED, 'if-match': '*' },
    ...(body !== undefined && { payload: body as object }),
  })
  if (response.statusCode < 400) return []
  const { status, errors = [] }: Json = response.json()
  if (status === 400) expect(errors, url).not.toEqual([])
  const request = `${method} ${url} ${JSON.stringify(body) ?? ''}`.slice(0, 200)
  return errors.map((error: Refused) => ({ ...error, request }))
}

/** Each part of a request wrong in each way, while all else of it is as the reference shows. */
function misfitsOf(method: Asked['method'], path: string, operation: Json): readonly Asked[] {
  const parameters: readonly Json[] = operation.parameters ?? []
  const usual = parameters
    .filter((one) => one.in === 'path')
    .reduce((url, { name, example }) => url.replace(`{${name}}`, encodeURIComponent(example)), path)
  const example = operation.requestBody?.content?.['application/json']?.example
  const inPath = parameters
    .filter((one) => one.in === 'path')
    .flatMap(({ name }) =>
      ['0x2', '-1', 'Ä', 'x'.repeat(300)].map((text) => {
        const rest = parameters
          .filter((one) => one.in === 'path' && one.name !== name)
          .reduce((url, one) => url.replace(`{${one.name}}`, encodeURIComponent(one.example)), path)
        return { method, url: rest.replace(`{${name}}`, encodeURIComponent(text)), body: example }
      }),
    )
  const inQuery = parameters
    .filter((one) => one.in === 'query')
    .flatMap(({ name }) =>
      ['', '0x2', '-1', 'Ä=', 'x'.repeat(2_100), `1&${name}=2`].map((text) => ({
        method,
        url: `${usual}?${neededQuery(parameters, name)}${name}=${text.includes('&') ? text : encodeURIComponent(text)}`,
        body: example,
      })),
    )
  const bare = { method, url: method === 'GET' ? usual : `${usual}?dryRun=true` }
  if (example === undefined) return [bare, ...inPath, ...inQuery]
  const bodies = [...wrongBodies(example), ...MISFITS.filter((one) => typeof one === 'object')]
  return [
    ...inPath,
    ...inQuery,
    ...bodies.map((body) => ({ method, url: `${usual}?dryRun=true`, body })),
  ]
}

function neededQuery(parameters: readonly Json[], but: string): string {
  return parameters
    .filter((one) => one.in === 'query' && one.required === true && one.name !== but)
    .map(({ name, example }) => `${name}=${encodeURIComponent(example)}&`)
    .join('')
}

/** The example with each of its parts left out, and each in turn of another kind. */
function wrongBodies(example: Json): readonly unknown[] {
  return partsOf(example, []).flatMap((path) => [
    changedAt(example, path, undefined),
    ...MISFITS.map((misfit) => changedAt(example, path, misfit)),
  ])
}

function partsOf(value: Json, path: readonly string[]): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries<Json>(value).flatMap(([key, one]) => [
    [...path, key],
    ...partsOf(one, [...path, key]),
  ])
}

function changedAt(example: Json, path: readonly string[], value: unknown): unknown {
  const copy = structuredClone(example)
  const last = path.at(-1) ?? ''
  const holder = path.slice(0, -1).reduce<Json>((at, key) => at[key], copy)
  if (value === undefined && !Array.isArray(holder)) delete holder[last]
  else holder[last] = value
  return copy
}

it.each([
  ['POST', `${POLICY}/reset`, { limit: 5 }, 'name a limit of the policy'],
  ['PUT', '/v1/regions/us-east-1', { description: 5 }, 'at most 1000 characters'],
  ['PUT', `${POLICY}/overrides/acme`, { limits: 5 }, 'numbers by limit'],
  ['PUT', `${POLICY}/overrides/${'x'.repeat(1_100)}`, { deny: true }, "the tenant's entry"],
  ['POST', '/v1/emergency-actions', { limit: 5 }, 'name one of its limits'],
] as const)('the fix of %s %s is that of its own field', async (method, url, body, fix) => {
  const answer = await admin.call(method, `${url}?dryRun=true`, body, { 'if-match': '*' })
  expect(answer.body.errors).toContainEqual(
    expect.objectContaining({ fix: expect.stringContaining(fix) }),
  )
})

describe('a number of a path or a query', () => {
  const places = [
    ['/v1/revisions/:', 'number'],
    ['/v1/revisions/:/diff', 'number'],
    ['/v1/revisions/2/diff?against=:', 'against'],
    ['/v1/rollouts/:', 'revision'],
    ['/v1/policies?limit=:', 'limit'],
    ['/v1/shares?keys=:', 'keys'],
    ['/v1/usage/top?seconds=:', 'seconds'],
    [`/v1/usage/history?domain=api&policy=per-tenant&limit=:`, 'limit'],
    ['/v1/audit/export?after=:', 'after'],
    [`${POLICY}/overrides?limit=:`, 'limit'],
  ] as const
  it.each(places)('%s is taken in decimal digits alone', async (place, field) => {
    for (const text of [
      '0x2',
      '+2',
      '2.0',
      '1e3',
      ' 2',
      '2 ',
      '02',
      '-0',
      '',
      '9007199254740993',
    ]) {
      const url = place.replace(':', encodeURIComponent(text))
      if (text === '' && url.startsWith('/v1/revisions//')) continue
      const response = await admin.app.inject({ url, headers: AUTHORIZED })
      if (text === '' && response.statusCode === 404) continue
      expect(response.statusCode, `${url} ${response.body}`).toBe(400)
      expect(response.json().errors).toEqual([
        { field, message: expect.stringContaining('number'), fix: expect.any(String) },
      ])
    }
    const { statusCode } = await admin.app.inject({
      url: place.replace(':', '2'),
      headers: AUTHORIZED,
    })
    expect(statusCode).toBe(200)
  })

  it('an action is ended by the decimal number that it has', async () => {
    for (const id of ['0x1', '+1', '1.0', '1e0', '%201']) {
      const { status, body } = await admin.call('DELETE', `/v1/emergency-actions/${id}`)
      expect(status).toBe(400)
      expect(body.errors).toMatchObject([{ field: 'id', fix: expect.stringContaining('decimal') }])
    }
    expect((await admin.call('DELETE', '/v1/emergency-actions/1')).status).toBe(404)
  })
})
