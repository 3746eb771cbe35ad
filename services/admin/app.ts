import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import rateLimit from '@fastify/rate-limit'
import swagger from '@fastify/swagger'
import Fastify, { type FastifyInstance } from 'fastify'
import { jsonSchemaTransformObject, serializerCompiler } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { ENTRY_VALUE_BYTES_MAX } from '../../shared/core/descriptor.ts'
import { QuotaError } from '../../shared/errors.ts'
import { plainWords } from '../../shared/protocol/plain-words.ts'
import { invalidInput, problemsOf } from '../../shared/protocol/zod-problems.ts'
import { type ReadinessCheck, useHealth } from '../../shared/runtime/health.ts'
import { listenerOptions } from '../../shared/runtime/listener.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Registry } from '../../shared/runtime/metrics.ts'
import { refuseByFramework, useProblems } from '../../shared/runtime/problem.ts'
import { cutSpareConnections } from '../../shared/runtime/spare-connections.ts'
import { type ListenTls, renewListener } from '../../shared/runtime/tls.ts'
import { nameByRoute, traceRequests } from '../../shared/runtime/tracing/http.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import { type AccessOptions, useAccess } from './access/authenticate.ts'
import { type AdminMetrics, measureRequests } from './metrics.ts'
import { CHANGING_METHODS, useOneChange } from './one-change.ts'
import { referenceRoutes } from './openapi/routes.ts'
import { describeRoute } from './openapi/transform.ts'
import { applyRoutes } from './routes/apply.ts'
import { auditRoutes } from './routes/audit.ts'
import { doctorRoutes } from './routes/doctor.ts'
import { domainRoutes } from './routes/domains.ts'
import { emergencyRoutes } from './routes/emergency.ts'
import { explainRoutes } from './routes/explain.ts'
import { fixesOf } from './routes/fixes.ts'
import { lagRoutes } from './routes/lags.ts'
import { overrideRoutes } from './routes/overrides.ts'
import { policyRoutes } from './routes/policies.ts'
import { regionRoutes } from './routes/regions.ts'
import { revisionRoutes } from './routes/revisions.ts'
import { rolloutRoutes } from './routes/rollouts.ts'
import type { AdminDeps } from './routes/route-support.ts'
import { streamRoutes } from './routes/stream.ts'
import { tokenRoutes } from './routes/tokens.ts'
import { usageRoutes } from './routes/usage.ts'
import { viewRoutes } from './routes/views.ts'
import { refuseUnstorableText } from './text-guard.ts'

/** Larger than the largest valid policy: its description, sixteen limits and their splits over 64 regions. */
const BODY_BYTES_MAX = 256 * 1024

/** A request that has not arrived whole by then is given up, so that slow senders hold nothing. */
const ARRIVAL_MS = 15_000

const REQUEST_ID = /^[\w.:-]{1,128}$/

export interface AdminAppOptions extends AdminDeps {
  readonly access: AccessOptions
  /** Null or not given: listens without TLS. */
  readonly tls?: ListenTls | null
  /** Most requests of one address in a second. */
  readonly requestsPerSecondMax: number
  readonly log: Logger
  readonly registry: Registry
  readonly metrics: AdminMetrics
  readonly tracer?: Tracer | undefined
  readonly checks: readonly ReadinessCheck[]
  readonly isRunning: () => boolean
  /** False until the schema is as this version needs it. */
  readonly isPrepared: () => boolean
}

/** The admin API; listens to nothing by itself. */
export async function createAdminApp(options: AdminAppOptions): Promise<FastifyInstance> {
  const app = Fastify({
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    ...listenerOptions({ tls: options.tls ?? null, arrivalMs: ARRIVAL_MS }),
    genReqId: requestIdOf,
    frameworkErrors: refuseByFramework,
    // The value of an override stands in the path, where each of its bytes may take three characters.
    routerOptions: { maxParamLength: 3 * ENTRY_VALUE_BYTES_MAX },
  })
  renewListener(app.server, options.tls)
  // Before any route, which would otherwise keep the handlers there were.
  useProblems(app, options.log)
  app.setValidatorCompiler(({ schema }) => validateBy(schema))
  app.setSerializerCompiler(serializerCompiler)
  app.addHook('onRequest', async (req, reply) => {
    reply.header('x-request-id', req.id)
  })
  measureRequests(app, options.metrics)
  if (options.tracer !== undefined) nameByRoute(app, options.tracer)
  cutSpareConnections(app)
  await app.register(swagger, {
    openapi: OPENAPI,
    transform: describeRoute,
    transformObject: jsonSchemaTransformObject,
  })
  useHealth(app, options)
  referenceRoutes(app)
  // Before the routes, and before authentication: what it protects is Postgres, which looks tokens up.
  await app.register(rateLimit, {
    max: options.requestsPerSecondMax,
    timeWindow: 1_000,
    errorResponseBuilder: () =>
      new QuotaError(
        'QUOTA_TOO_MANY_REQUESTS',
        `more than ${options.requestsPerSecondMax} requests in a second from this address: retry in a second`,
      ),
  })
  await app.register(
    (v1, _plugin, done) => {
      protectedRoutes(v1, options)
      done()
    },
    { prefix: '/v1' },
  )
  if (options.tracer !== undefined) {
    traceRequests(app, {
      tracer: options.tracer,
      isTraced: ({ method = '' }) => CHANGING_METHODS.has(method),
      nameOf: ({ method = '' }) => method,
    })
  }
  return app
}

const OPENAPI = {
  openapi: '3.1.0',
  info: {
    title: 'Quotaplane admin API',
    description: 'Policies and regions of a plane, the record of their changes, and live views.',
    version: '1',
  },
  components: { securitySchemes: { token: { type: 'http' as const, scheme: 'bearer' } } },
  security: [{ token: [] }],
}

function protectedRoutes(v1: FastifyInstance, options: AdminAppOptions): void {
  useAccess(v1, options.access)
  refuseUnstorableText(v1)
  v1.addHook('onRequest', async () => {
    if (options.isPrepared()) return
    throw new QuotaError('QUOTA_DATABASE_UNAVAILABLE', 'Postgres has not answered since the start')
  })
  takeNoOtherQuery(v1)
  useOneChange(v1, options)
  domainRoutes(v1, options)
  policyRoutes(v1, options)
  overrideRoutes(v1, options)
  applyRoutes(v1, options)
  emergencyRoutes(v1, options)
  regionRoutes(v1, options)
  revisionRoutes(v1, options)
  auditRoutes(v1, options)
  viewRoutes(v1, options)
  explainRoutes(v1, options)
  doctorRoutes(v1, options)
  rolloutRoutes(v1, options)
  usageRoutes(v1, options)
  lagRoutes(v1, options)
  streamRoutes(v1, options)
  tokenRoutes(v1, options, options.access.tokens)
}

/** A query that a route does not know is refused: `?dryrun=true`, misspelt, must not carry a change out. */
function takeNoOtherQuery(v1: FastifyInstance): void {
  v1.addHook('onRoute', (route) => {
    route.schema = { querystring: z.strictObject({}), ...route.schema }
  })
}

/** Refusals name the field and how to mend it, whichever part of the request it is in. */
function validateBy(schema: unknown) {
  return (input: unknown): { value: unknown } | { error: Error } => {
    if (!(schema instanceof z.ZodType)) return { value: input }
    const parsed = schema.safeParse(input, { error: plainWords })
    if (parsed.success) return { value: parsed.data }
    return { error: invalidInput(problemsOf(parsed.error, fixesOf(schema))) }
  }
}

/** The caller's id when it is fit for logs and the audit; else one of our own. */
function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID()
}
