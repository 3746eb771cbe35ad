/**
 * Gives every operation of an OpenAPI document examples: those that are written here, and for the rest one that is
 * derived from its schema, so that none is without and none is of another shape than the route has.
 */

/** A JSON document, as the generator of the document makes it. */
// biome-ignore lint/suspicious/noExplicitAny: what a schema holds is whatever the standard allows.
type Json = any

/** What fields of these names look like. */
const BY_NAME: Readonly<Record<string, unknown>> = {
  domain: 'api',
  name: 'per-tenant',
  policy: 'per-tenant',
  limit: 'per-second',
  limitName: 'per-second',
  region: 'us-east-1',
  lender: 'us-east-1',
  borrower: 'eu-west-1',
  from: 'us-east-1',
  to: 'eu-west-1',
  actor: 'token:ci',
  createdBy: 'token:root',
  requestId: '0b6a8c1e-6f0d-4f4e-9d5c-1c1f2a3b4c5d',
  objectId: 'api/per-tenant',
  reason: 'launch of the new plan',
  key: 'tenant',
  value: 'acme',
  capacity: 10_000,
  burst: 10_000,
  windowMs: 1_000,
  revision: 42,
  description: 'each tenant may call ten thousand times a second',
  title: 'Not found',
  detail: 'there is no policy api/per-tenant',
  type: 'about:blank',
  code: 'QUOTA_POLICY_NOT_FOUND',
  status: 404,
  token: 'qp_abcdefghijklmnop_…',
  timeZone: 'Europe/Berlin',
  fix: 'create it first',
}

const POLICY = {
  domain: 'api',
  name: 'per-tenant',
  match: [{ key: 'tenant' }],
  limits: [
    {
      name: 'per-second',
      algorithm: 'token_bucket',
      capacity: 10_000,
      windowMs: 1_000,
      split: { 'us-east-1': 60, 'eu-west-1': 40 },
    },
  ],
}

/** Bodies whose fields hang together, by method and path. */
const BODIES: Readonly<Record<string, unknown>> = {
  'post /v1/policies': POLICY,
  'put /v1/domains/{domain}/policies/{name}': POLICY,
  'put /v1/domains/{domain}/policies/{name}/overrides/{value}': {
    limits: { 'per-second': { capacity: 20_000 } },
    expiresAt: '2099-01-31T00:00:00Z',
  },
  'post /v1/domains/{domain}/policies/{name}/overrides': {
    set: [{ value: 'acme', unlimited: true }],
    remove: ['bravo'],
  },
  'put /v1/domains/{domain}': {
    description: 'The public API. Search team, #search-oncall.',
    labels: { team: 'search' },
  },
  'post /v1/apply': {
    documents: [POLICY],
    domains: [{ domain: 'api', description: 'The public API.', labels: { team: 'search' } }],
  },
  'post /v1/tokens': { name: 'ci', scopes: ['quota:read', 'quota:write'], domains: ['api'] },
  'post /v1/regions/{id}/remove': {
    certifiedBy: 'Ada, on call',
    reason: 'the site is lost',
    nothingInUse: true,
  },
  'post /v1/explain': { domain: 'api', entries: [{ key: 'tenant', value: 'acme' }] },
}

const DEPTH_MAX = 10

/** The document with an example for each parameter, request body and answer; what has one keeps it. */
export function withExamples(document: Json): Json {
  const at = { document, depth: 0 }
  for (const [path, methods] of Object.entries<Json>(document.paths ?? {})) {
    for (const [method, operation] of Object.entries<Json>(methods)) {
      for (const parameter of operation.parameters ?? []) {
        parameter.example ??= parameterExample(parameter, at)
      }
      const written = BODIES[`${method} ${path}`]
      exemplify(operation.requestBody?.content, at, written)
      for (const answer of Object.values<Json>(operation.responses ?? {})) {
        exemplify(answer.content, at, undefined)
      }
    }
  }
  return document
}

interface At {
  readonly document: Json
  readonly depth: number
}

function exemplify(content: Json, at: At, written: unknown): void {
  for (const [type, media] of Object.entries<Json>(content ?? {})) {
    if (media.example !== undefined || media.examples !== undefined) continue
    media.example = written ?? STREAMS[type] ?? exampleOf(media.schema, '', at)
  }
}

/** What is no one JSON document. */
const STREAMS: Readonly<Record<string, string>> = {
  'text/event-stream':
    'id: 5f0c1a2b-17\nevent: revisions\ndata: {"at":"2027-01-31T12:00:00.000Z","revision":42}\n\n',
  'application/x-ndjson':
    '{"seq":7,"at":"2027-01-31T12:00:00.000Z","actor":"token:ci","action":"policy.update","objectKind":"policy","objectId":"api/per-tenant"}\n',
}

function parameterExample({ in: place, name, schema }: Json, at: At): unknown {
  if (name === 'if-match') return '"42"'
  if (name === 'if-none-match') return '*'
  if (name === 'cursor') return 'WyJhcGkiLCJwZXItdGVuYW50Il0'
  if (place === 'path' && name === 'id') return 'us-east-1'
  if (name === 'from' || name === 'to') return exampleOf(schema, '', at)
  return exampleOf(schema, name, at)
}

function exampleOf(schema: Json, name: string, at: At): unknown {
  if (schema === undefined || at.depth > DEPTH_MAX) return null
  const deeper = { ...at, depth: at.depth + 1 }
  if (schema.$ref !== undefined) return exampleOf(resolve(at.document, schema.$ref), name, deeper)
  const given = schema.example ?? schema.examples?.[0] ?? schema.const ?? schema.default
  if (given !== undefined) return given
  if (schema.enum !== undefined) return schema.enum[0]
  const choices: readonly Json[] | undefined = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) {
    return exampleOf(choices.find((one) => one.type !== 'null') ?? choices[0], name, deeper)
  }
  return ofType(schema, name, deeper)
}

function ofType(schema: Json, name: string, at: At): unknown {
  const known = BY_NAME[name]
  switch (typeOf(schema)) {
    case 'array':
      return [exampleOf(schema.items, singular(name), at)]
    case 'object':
      return objectOf(schema, name, at)
    case 'boolean':
      return false
    case 'string':
      if (schema.format === 'date-time') return '2027-01-31T12:00:00.000Z'
      return typeof known === 'string' ? known : 'example'
    case 'integer':
    case 'number':
      return typeof known === 'number' ? known : Math.max(1, schema.minimum ?? 1)
    default:
      return known ?? {}
  }
}

function typeOf({ type }: Json): string {
  return Array.isArray(type) ? type.find((one) => one !== 'null') : type
}

function objectOf(schema: Json, name: string, at: At): unknown {
  const entries = Object.entries<Json>(schema.properties ?? {}).map(
    ([key, one]) => [key, exampleOf(one, key, at)] as const,
  )
  if (typeof schema.additionalProperties !== 'object' || entries.length > 0) {
    return Object.fromEntries(entries)
  }
  const key = name === 'split' || name === 'base' ? 'us-east-1' : 'per-second'
  return { [key]: exampleOf(schema.additionalProperties, name, at) }
}

function resolve(document: Json, ref: string): Json {
  return ref
    .slice(2)
    .split('/')
    .reduce<Json>((from, part) => from?.[part], document)
}

/** Lists are named for what they hold. */
function singular(name: string): string {
  return name === 'policies' ? 'policy' : name.replace(/s$/, '')
}
