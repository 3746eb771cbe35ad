/** The OpenAPI description of the enforcer's HTTP side, for `GET /openapi.json`. Written by hand like its parsers. */
import {
  DESCRIPTORS_MAX,
  ENTRIES_MAX,
  ENTRY_KEY_BYTES_MAX,
  ENTRY_VALUE_BYTES_MAX,
} from '../../shared/core/descriptor.ts'
import { TOKENS_MAX } from '../../shared/core/units.ts'
import { BATCH_CHECKS_MAX } from '../../shared/protocol/check-batch.ts'
import { REQUEST_ID_BYTES_MAX } from '../../shared/protocol/check-request.ts'
import { HEADER_FAMILIES } from '../../shared/protocol/rate-limit-headers.ts'
import { SAMPLE_SECONDS_MAX } from './decision-log.ts'
import { leasePaths } from './openapi-leases.ts'

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const json = (schema: object) => ({ content: { 'application/json': { schema } } })
const list = (items: object, maxItems: number) => ({ type: 'array', items, minItems: 1, maxItems })
const text = (maxLength: number) => ({ type: 'string', minLength: 1, maxLength })
const nullable = (type: string) => ({ type: [type, 'null'] })
const query = (name: string, description: string, schema: object, required = false) => ({
  in: 'query',
  name,
  description,
  required,
  schema,
})

const PROBLEM = { content: { 'application/problem+json': { schema: ref('Problem') } } }
const INVALID = { ...PROBLEM, description: 'Not valid; `errors` names the fields.' }
const UNAVAILABLE = {
  ...PROBLEM,
  description:
    'No policies, or no tokens where they are asked for, are known yet, too many checks wait, or an outage denies.',
}

const REFUSED = {
  401: { ...PROBLEM, description: 'The enforcer asks for a token, and none that works was sent.' },
  403: { ...PROBLEM, description: 'The token is not for the domain.' },
}
/** A token, where the enforcer asks for one. */
const CALLER = [{}, { callerToken: [] }]

const HEADERS_PARAMETER = query(
  'headers',
  `Rate limit header fields of the answer: ${HEADER_FAMILIES.join(', ')}; several by commas.`,
  { type: 'string' },
)

const SCHEMAS = {
  Entry: {
    type: 'object',
    required: ['key', 'value'],
    additionalProperties: false,
    properties: { key: text(ENTRY_KEY_BYTES_MAX), value: text(ENTRY_VALUE_BYTES_MAX) },
  },
  Descriptor: {
    type: 'object',
    required: ['entries'],
    additionalProperties: false,
    properties: { entries: list(ref('Entry'), ENTRIES_MAX) },
  },
  Check: {
    type: 'object',
    required: ['domain', 'descriptors'],
    additionalProperties: false,
    properties: {
      domain: text(256),
      descriptors: list(ref('Descriptor'), DESCRIPTORS_MAX),
      cost: { type: 'integer', minimum: 0, maximum: TOKENS_MAX, default: 1 },
      requestId: text(REQUEST_ID_BYTES_MAX),
    },
  },
  Decision: {
    type: 'object',
    properties: {
      policy: { type: 'string' },
      allowed: { type: 'boolean' },
      limit: { type: 'integer' },
      windowMs: { type: 'integer' },
      remaining: nullable('integer'),
      resetMs: nullable('integer'),
      retryAfterMs: nullable('integer'),
      reason: { type: 'string' },
      limitName: { type: 'string' },
      descriptor: { type: 'integer' },
    },
  },
  Answer: {
    type: 'object',
    required: ['allowed', 'region', 'revision', 'degraded', 'decisions'],
    properties: {
      allowed: { type: 'boolean' },
      region: { type: 'string' },
      revision: { type: 'integer' },
      degraded: { type: 'boolean' },
      decisions: { type: 'array', items: ref('Decision') },
      watched: { type: 'array', items: ref('Decision') },
      unlimited: { type: 'array', items: { type: 'integer' } },
      unmatched: { type: 'boolean' },
      requestId: { type: 'string' },
    },
  },
  Problem: {
    type: 'object',
    required: ['type', 'title', 'status', 'detail'],
    properties: {
      type: { type: 'string', format: 'uri-reference' },
      title: { type: 'string' },
      status: { type: 'integer' },
      detail: { type: 'string' },
      code: { type: 'string' },
      'violated-policies': { type: 'array', items: { type: 'string' } },
      errors: { type: 'array', items: { type: 'object' } },
    },
  },
}

const CHECK = {
  summary: 'Decide about one request',
  security: CALLER,
  parameters: [
    query('deny', 'Answer a denial with this status.', { const: '429' }),
    HEADERS_PARAMETER,
  ],
  requestBody: { required: true, ...json(ref('Check')) },
  responses: {
    200: { description: 'Decided; `allowed` says how.', ...json(ref('Answer')) },
    400: INVALID,
    ...REFUSED,
    429: { ...PROBLEM, description: 'Denied, where the request asked for this status.' },
    503: UNAVAILABLE,
  },
}

const BATCH_ITEM = {
  type: 'object',
  required: ['status'],
  properties: { status: { type: 'integer' }, answer: ref('Answer'), problem: ref('Problem') },
}

const BATCH = {
  summary: 'Decide about several requests, each apart from the others',
  security: CALLER,
  requestBody: {
    required: true,
    ...json({
      type: 'object',
      required: ['checks'],
      additionalProperties: false,
      properties: { checks: list(ref('Check'), BATCH_CHECKS_MAX) },
    }),
  },
  responses: {
    200: {
      description: 'In the order of the checks.',
      ...json({
        type: 'object',
        required: ['answers'],
        properties: { answers: { type: 'array', items: BATCH_ITEM } },
      }),
    },
    400: INVALID,
    401: REFUSED[401],
  },
}

const AUTHORIZE = {
  summary: 'Decide about a request of a gateway by its header fields',
  security: CALLER,
  parameters: [
    query('domain', 'Domain of the policies.', { type: 'string' }, true),
    query(
      'descriptor',
      'Entries `key:source` separated by commas; a source is `header:NAME`, `path:NAME`, `client` or `value:TEXT`.',
      list({ type: 'string' }, DESCRIPTORS_MAX),
      true,
    ),
    query('cost', 'Tokens to spend.', { type: 'integer', minimum: 0, default: 1 }),
    query('missing', 'What stands in for a value that the request does not have.', {
      enum: ['deny', 'anonymous', 'client'],
      default: 'deny',
    }),
    query('deny', 'Status of a denial.', { enum: ['429', '403'], default: '429' }),
    HEADERS_PARAMETER,
  ],
  responses: {
    200: { description: 'Allowed; no body.' },
    400: INVALID,
    401: REFUSED[401],
    403: {
      ...PROBLEM,
      description:
        'Denied with `deny=403`, a value is missing, or the token is not for the domain.',
    },
    429: { ...PROBLEM, description: 'Denied.' },
    503: UNAVAILABLE,
  },
}

const RLS_JSON = {
  summary: "Envoy's ShouldRateLimit as proto3 JSON",
  security: CALLER,
  requestBody: { required: true, ...json({ type: 'object' }) },
  responses: {
    200: { description: 'OK', ...json({ type: 'object' }) },
    400: INVALID,
    ...REFUSED,
    429: { description: 'OVER_LIMIT', ...json({ type: 'object' }) },
    503: UNAVAILABLE,
  },
}

const RETURNED = {
  type: 'object',
  properties: {
    policy: { type: 'string' },
    limitName: { type: 'string' },
    descriptor: { type: 'integer' },
    tokens: { type: 'integer' },
  },
}

const returns = (summary: string, more: object, required: readonly string[]) => ({
  summary,
  security: CALLER,
  requestBody: {
    required: true,
    ...json({
      type: 'object',
      required: ['domain', 'descriptors', 'requestId', ...required],
      additionalProperties: false,
      properties: { ...SCHEMAS.Check.properties, ...more },
    }),
  },
  responses: {
    200: {
      description: 'What each limit has again.',
      ...json({
        type: 'object',
        properties: {
          requestId: { type: 'string' },
          outcome: { enum: ['refunded', 'repeated', 'too_late', 'unmatched'] },
          limits: { type: 'array', items: RETURNED },
        },
      }),
    },
    400: INVALID,
    ...REFUSED,
    503: UNAVAILABLE,
  },
})

const DECISIONS_READING = {
  type: 'object',
  properties: {
    sample: { type: 'number' },
    until: nullable('string'),
    next: { type: 'integer' },
    missed: { type: 'integer' },
    decisions: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          seq: { type: 'integer' },
          at: { type: 'string', format: 'date-time' },
          domain: { type: 'string' },
          descriptors: { type: 'array', items: { type: 'string' } },
          cost: { type: 'integer' },
          requestId: { type: 'string' },
          allowed: { type: 'boolean' },
          degraded: { type: 'boolean' },
          unmatched: { type: 'boolean' },
          decisions: { type: 'array', items: ref('Decision') },
        },
      },
    },
  },
}

const DEBUG_RESPONSES = {
  200: { description: 'The sample.', ...json(DECISIONS_READING) },
  400: INVALID,
  401: { ...PROBLEM, description: 'The bearer token is not the debug token.' },
  403: { ...PROBLEM, description: 'The enforcer has no debug token.' },
}

const DEBUG_READ = {
  summary: 'A sample of the newest decisions, with their descriptors',
  security: [{ debugToken: [] }],
  parameters: [
    query('after', 'Only what was kept from this number on: `next` of the answer before.', {
      type: 'integer',
      minimum: 0,
      default: 0,
    }),
  ],
  responses: DEBUG_RESPONSES,
}

const DEBUG_KEEP = {
  summary: 'Keep a part of the decisions from now on, for a time',
  security: [{ debugToken: [] }],
  requestBody: {
    required: true,
    ...json({
      type: 'object',
      required: ['sample'],
      properties: {
        sample: { type: 'number', minimum: 0, maximum: 1 },
        seconds: { type: 'integer', minimum: 1, maximum: SAMPLE_SECONDS_MAX, default: 60 },
      },
    }),
  },
  responses: DEBUG_RESPONSES,
}

const plain = (summary: string) => ({ summary, responses: { 200: { description: 'Yes.' } } })

/** The document. */
export const OPENAPI = {
  openapi: '3.1.0',
  info: { title: 'Quotaplane enforcer', version: '1' },
  paths: {
    '/v1/check': { post: CHECK },
    '/v1/check/batch': { post: BATCH },
    '/v1/refund': {
      post: returns(
        'Give an admitted check its tokens back, once for each id',
        { admittedAtUs: { type: 'integer' } },
        ['admittedAtUs'],
      ),
    },
    '/v1/release': { post: returns('Free what a request holds of concurrency limits', {}, []) },
    ...leasePaths({ security: CALLER, responses: { 400: INVALID, ...REFUSED, 503: UNAVAILABLE } }),
    '/v1/authorize': { get: AUTHORIZE },
    '/json': { post: RLS_JSON },
    '/v1/debug/decisions': { get: DEBUG_READ, put: DEBUG_KEEP },
    '/healthcheck': { get: plain('Whether it serves, for callers of envoyproxy/ratelimit') },
    '/livez': { get: plain('Whether the process works') },
    '/readyz': { get: plain('Whether it can decide; `?verbose` lists what for') },
    '/metrics': { get: plain('Figures for Prometheus') },
  },
  components: {
    schemas: SCHEMAS,
    securitySchemes: {
      debugToken: { type: 'http', scheme: 'bearer' },
      callerToken: {
        type: 'http',
        scheme: 'bearer',
        description: 'A token with the scope `quota:check`, where ENFORCER_REQUIRE_TOKEN is set.',
      },
    },
  },
}
