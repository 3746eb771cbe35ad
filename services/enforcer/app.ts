import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify'
import { CHECK_BODY_BYTES_MAX } from '../../shared/protocol/check-request.ts'
import { type ReadinessCheck, useHealth } from '../../shared/runtime/health.ts'
import { listenerOptions } from '../../shared/runtime/listener.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import type { Registry } from '../../shared/runtime/metrics.ts'
import { refuseByFramework, useProblems } from '../../shared/runtime/problem.ts'
import { type ListenTls, renewListener } from '../../shared/runtime/tls.ts'
import { nameByRoute } from '../../shared/runtime/tracing/http.ts'
import type { Tracer } from '../../shared/runtime/tracing/tracer.ts'
import { AUTHORIZE_PATH, type AuthorizeOptions, useAuthorize } from './authorize-route.ts'
import { BATCH_PATH, useBatches } from './batch-route.ts'
import { useCallers } from './caller-access.ts'
import type { CallerBook } from './caller-book.ts'
import { CHECK_PATH, useChecks, watchChecks } from './check-route.ts'
import type { ClientLeases } from './client-leases.ts'
import { type DebugOptions, useDebug } from './debug-route.ts'
import { answerDirectly } from './direct-checks.ts'
import { parseJson } from './json-body.ts'
import { useLeases } from './lease-route.ts'
import { OPENAPI } from './openapi.ts'
import { useReturns } from './return-route.ts'
import { RLS_JSON_PATH, useRlsJson } from './rls-json-route.ts'
import type { StoreWatch } from './store-watch.ts'
import { WholeMessage } from './whole-message.ts'

export interface EnforcerAppOptions extends AuthorizeOptions {
  /** Not given: callers are not asked who they are. */
  readonly callers?: Pick<CallerBook, 'require' | 'isKnown'> | undefined
  /** Not given: there are no routes for leases. */
  readonly clientLeases?: ClientLeases
  readonly log: Logger
  readonly registry: Registry
  /** Null or not given: listens without TLS. */
  readonly tls?: ListenTls | null
  readonly watch?: Pick<StoreWatch, 'memory' | 'clock'>
  /** What `/metrics` says in place of what the registry does. */
  readonly metricsText?: (() => Promise<string>) | undefined
  readonly tracer?: Tracer | undefined
  readonly debugToken?: DebugOptions['debugToken']
}

/** A check is small and its caller near: what takes longer to arrive holds a connection for nothing. */
const ARRIVAL_MS = 5_000

/**
 * The enforcer's HTTP side: `POST /v1/check`, `/v1/check/batch`, `/v1/refund`, `/v1/release`, `/v1/lease` and `/v1/lease/return`, `GET /v1/authorize`, envoyproxy/ratelimit's `POST /json` and `GET /healthcheck`, and
 * `/openapi.json`, `/livez`, `/readyz`, `/metrics`.
 *
 * Ready once policies are known. It stays ready without Redis, because it still answers as each policy says,
 * and it never had a connection to NATS, Postgres or admin; `/readyz?verbose` shows whether Redis answers.
 */
export function createEnforcerApp(options: EnforcerAppOptions): FastifyInstance {
  const { context, isRunning, registry, log, clientLeases } = options
  // Fastify's own line about listening would be a second one.
  const level = log.isLevelEnabled('info') ? 'warn' : log.level
  const loggerInstance: FastifyBaseLogger = log.child({}, { level })
  const app = Fastify({
    loggerInstance,
    // A line a check would cost more than the check and would hold descriptors.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: CHECK_BODY_BYTES_MAX,
    ...listenerOptions({
      tls: options.tls ?? null,
      arrivalMs: ARRIVAL_MS,
      IncomingMessage: WholeMessage,
    }),
    // A request on a connection that is still open is answered, with `Connection: close`, rather than refused.
    return503OnClosing: false,
    frameworkErrors: refuseByFramework,
  })
  renewListener(app.server, options.tls)
  if (options.tracer !== undefined) nameByRoute(app, options.tracer)
  useProblems(app, log)
  // Fastify reads plain text too, which is never a check.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, parseJson)
  const checks: ReadinessCheck[] = [
    {
      name: 'policies',
      isRequired: true,
      isReady: () => context.policies.current() !== null,
    },
    {
      name: 'newest-policies',
      isRequired: false,
      isReady: () => (context.policies.applied?.refused ?? null) === null,
      detail: () => context.policies.applied?.refused?.reason ?? '',
    },
    {
      name: 'store',
      isRequired: false,
      isReady: () => !context.guard.isOpen,
      detail: () => {
        const seconds = Math.ceil((context.guard.openMs ?? 0) / 1_000)
        return `Redis has not decided for ${seconds} s; policies decide by their onStoreFailure`
      },
    },
  ]
  const { watch, callers } = options
  if (callers !== undefined) {
    checks.push({ name: 'tokens', isRequired: true, isReady: () => callers.isKnown })
  }
  if (watch !== undefined) checks.push(...storeChecks(watch))
  useHealth(app, { checks, isRunning, registry, metricsText: options.metricsText })
  app.get('/openapi.json', () => OPENAPI)
  useCallers(app, options)
  watchChecks(app, options, new Set([CHECK_PATH, BATCH_PATH, AUTHORIZE_PATH, RLS_JSON_PATH]))
  useChecks(app, options)
  useBatches(app, options)
  useReturns(app, options)
  if (clientLeases !== undefined) useLeases(app, { ...options, clientLeases })
  useAuthorize(app, options)
  useRlsJson(app, options)
  useDebug(app, options)
  answerDirectly(app, options)
  return app
}

/** An enforcer answers without Redis too, so none of them keeps it from being ready. */
function storeChecks({ memory, clock }: Pick<StoreWatch, 'memory' | 'clock'>): ReadinessCheck[] {
  return [
    {
      name: 'eviction',
      isRequired: false,
      isReady: () => memory.evicts === null,
      detail: () => `Redis throws keys away when its memory is full (${memory.evicts})`,
    },
    {
      name: 'store-clock',
      isRequired: false,
      isReady: () => clock.trouble === null,
      detail: () => clock.trouble ?? '',
    },
  ]
}
