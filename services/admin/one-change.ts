/**
 * Makes every request that changes something one transaction: the change, its revision and audit entries, and the
 * answer that a repeated request gets. Whatever fails on the way, nothing of it has happened.
 *
 * With `?dryRun=true` it is carried out all the same, looked at, and undone: a plan is what the change itself did.
 */
import { createHash } from 'node:crypto'
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RouteHandlerMethod,
  RouteOptions,
} from 'fastify'
import { sql } from 'kysely'
import { z } from 'zod'
import { assert } from '../../shared/core/assert.ts'
import { QuotaError } from '../../shared/errors.ts'
import {
  claimKey,
  type EarlierRequest,
  type KeptAnswer,
  keepAnswer,
  type RequestKey,
} from '../../shared/postgres/idempotency.ts'
import type { Db, Trx } from '../../shared/postgres/plane.ts'
import {
  type ChangeScope,
  type DocumentChange,
  type PolicyMemory,
  recallPolicies,
} from '../../shared/postgres/plane-change.ts'
import type { PolicyKey } from '../../shared/postgres/policies.ts'
import { findPolicies } from '../../shared/postgres/policy-batch.ts'
import { listRegions } from '../../shared/postgres/regions.ts'
import { type Plan, planSchema } from '../../shared/protocol/plan.ts'
import { invalidInput } from '../../shared/protocol/zod-problems.ts'
import { type Tracer, traced } from '../../shared/runtime/tracing/tracer.ts'
import { callerOf } from './access/authenticate.ts'
import type { LiveView } from './live-view.ts'
import { planOf } from './views/plan.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set while a request that changes something is carried out. */
    scope: ChangeScope | null
  }
}

export interface OneChangeOptions {
  readonly db: Db
  readonly live: LiveView
  readonly cache: PolicyMemory
  readonly wallMs: () => number
  /** Called after each committed change of the plane. */
  readonly onChange: () => void
  readonly tracer?: Tracer | undefined
}

export const CHANGING_METHODS: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/** Says that the answer is one that was given before, and that nothing was changed by this request. */
const REPLAYED_HEADER = 'idempotent-replayed'

/** What else of an answer is repeated; the rest belongs to each request. */
const KEPT_HEADERS = ['etag', 'location'] as const

/** As the draft of the header says, visible characters; as long as programs make them. */
const KEY_PATTERN = /^[\x21-\x7e]{1,255}$/

/** Must come before the routes. A handler answers by what it returns, since an answer is sent after the commit. */
export function useOneChange(app: FastifyInstance, options: OneChangeOptions): void {
  app.decorateRequest('scope', null)
  app.addHook('onRoute', (route) => {
    if (![route.method].flat().every((method) => CHANGING_METHODS.has(method))) return
    const { handler } = route
    describeDryRun(route)
    route.handler = function carryOut(req, reply) {
      return answerOnce(options, req, reply, async () => await handler.call(this, req, reply))
    } satisfies RouteHandlerMethod
  })
}

const dryRunShape = {
  dryRun: z
    .enum(['true', 'false'])
    .optional()
    .describe('true: change nothing and answer with a Plan of what would be changed'),
}

/** Every write can be planned, so every one says so. */
function describeDryRun(route: RouteOptions): void {
  const { schema = {} } = route
  const { querystring, response } = schema
  const answers: Readonly<Record<string, unknown>> =
    typeof response === 'object' && response !== null ? { ...response } : {}
  const usual = answers['200']
  route.schema = {
    ...schema,
    querystring:
      querystring instanceof z.ZodObject
        ? querystring.extend(dryRunShape)
        : z.strictObject(dryRunShape),
    response: {
      ...answers,
      200: usual instanceof z.ZodType ? z.union([usual, planSchema]) : planSchema,
    },
  }
}

function isDryRun({ query }: FastifyRequest): boolean {
  return typeof query === 'object' && query !== null && 'dryRun' in query && query.dryRun === 'true'
}

/** Carries a change out, looks at it, and undoes it. */
async function answerPlan(
  { db, live, cache: memory, wallMs }: OneChangeOptions,
  req: FastifyRequest,
  reply: FastifyReply,
  handle: () => Promise<unknown>,
): Promise<Plan> {
  const plan = await db.transaction().execute(async (trx) => {
    const besides: DocumentChange[] = []
    const scope: ChangeScope = { trx, finished: [], isPlanned: true, besides, memory }
    await sql`savepoint before_the_change`.execute(trx)
    req.scope = scope
    await handle()
    req.scope = null
    assert(!reply.sent, 'a change is answered after its commit')
    const changes = [...scope.finished.flatMap((plane) => plane.changes), ...besides]
    const names = policyNamesOf(changes)
    const after = await findPolicies(trx, names)
    await sql`rollback to savepoint before_the_change`.execute(trx)
    const before = await recallPolicies(trx, memory, names)
    const members = await membersOf(trx)
    return planOf({ changes, before, after, members, live, nowMs: wallMs() })
  })
  for (const name of KEPT_HEADERS) reply.removeHeader(name)
  reply.code(200)
  return plan
}

/** The policies that changes are about, each once; those of regions and others name none, and none is found. */
function policyNamesOf(changes: readonly { readonly id: string }[]): readonly PolicyKey[] {
  const ids = new Set(changes.map(({ id }) => id.split(' ')[0] ?? ''))
  return [...ids].flatMap((id) => {
    const [domain = '', name] = id.split('/')
    return name === undefined ? [] : [{ domain, name }]
  })
}

async function membersOf(trx: Trx): Promise<readonly string[]> {
  return (await listRegions(trx)).map(({ id }) => id)
}

const TRANSACTION = {
  name: 'postgresql transaction',
  kind: 'client',
  notes: { 'db.system.name': 'postgresql' },
} as const

async function answerOnce(
  options: OneChangeOptions,
  req: FastifyRequest,
  reply: FastifyReply,
  handle: () => Promise<unknown>,
): Promise<unknown> {
  if (isDryRun(req)) return await answerPlan(options, req, reply, handle)
  const { db, cache: memory, onChange } = options
  const key = requestKeyOf(req)
  const change = async (trx: Trx) => {
    const scope: ChangeScope = { trx, finished: [], memory }
    const earlier = key === null ? null : await claimKey(trx, key)
    if (earlier !== null) return { scope, answer: repeated(earlier, reply) }
    req.scope = scope
    const body = await handle()
    assert(!reply.sent, 'a change is answered after its commit')
    const answer = answerOf(reply, body)
    const isSecret = reply.getHeader('cache-control') === 'no-store'
    if (key !== null && !isSecret) await keepAnswer(trx, key, answer)
    return { scope, answer }
  }
  const { scope, answer } = await traced(options.tracer, TRANSACTION, () =>
    db.transaction().execute(change),
  )
  req.scope = null
  if (scope.finished.some((plane) => plane.isRaised)) onChange()
  reply.code(answer.status).headers(answer.headers)
  if (answer.body === null) return undefined
  reply.type('application/json; charset=utf-8')
  return answer.body
}

function answerOf(reply: FastifyReply, body: unknown): KeptAnswer {
  const headers = KEPT_HEADERS.flatMap((name) => {
    const value = reply.getHeader(name)
    return value === undefined ? [] : [[name, String(value)] as const]
  })
  return {
    status: reply.statusCode,
    headers: Object.fromEntries(headers),
    body: body === undefined ? null : String(reply.serialize(body)),
  }
}

function repeated({ isSame, answer }: EarlierRequest, reply: FastifyReply): KeptAnswer {
  if (!isSame) {
    throw new QuotaError('QUOTA_KEY_REUSED', 'Idempotency-Key stands for another request', {
      problems: [
        {
          field: 'idempotency-key',
          message: 'came with another request within the last day',
          fix: 'send a new key with each new request, and the same only to repeat one',
        },
      ],
    })
  }
  if (answer === null) {
    const message =
      'this request was carried out before, and its answer holds a secret that is not kept: look at what it made, or make another with a new key'
    throw new QuotaError('QUOTA_ANSWER_NOT_KEPT', message)
  }
  reply.header(REPLAYED_HEADER, 'true')
  return answer
}

function requestKeyOf(req: FastifyRequest): RequestKey | null {
  const key = req.headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key !== 'string' || !KEY_PATTERN.test(key)) {
    const message = 'must be 1 to 255 visible ASCII characters'
    throw invalidInput([
      { field: 'idempotency-key', message, fix: 'send a UUID, a new one for each new request' },
    ])
  }
  return { actor: callerOf(req).actor, key, fingerprint: fingerprintOf(req) }
}

/** What the request asks for: where, on which condition and what. */
function fingerprintOf({ method, url, headers, body }: FastifyRequest): Buffer {
  const conditions = [headers['if-match'] ?? null, headers['if-none-match'] ?? null]
  return createHash('sha256')
    .update(JSON.stringify([method, url, conditions, body ?? null]))
    .digest()
}
