import {
  type handleUnaryCall,
  Server,
  type ServerCredentials,
  type ServerOptions,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { service as healthService } from 'grpc-health-check'
import { isQuotaError, type QuotaError } from '../../../shared/errors.ts'
import { CHECK_BODY_BYTES_MAX } from '../../../shared/protocol/check-request.ts'
import {
  RLS_SERVICE,
  type RlsRequest,
  type RlsResponse,
} from '../../../shared/protocol/rls-messages.ts'
import type { Logger } from '../../../shared/runtime/logger.ts'
import type { ListenTls } from '../../../shared/runtime/tls.ts'
import type { Tracer } from '../../../shared/runtime/tracing/tracer.ts'
import { type RlsOptions, shouldRateLimit } from '../rls.ts'
import { CHECKS_IN_FLIGHT_MAX, countFailure } from '../run-check.ts'
import { credentialsOf } from './credentials.ts'
import { loadRlsService } from './definitions.ts'
import { Health } from './health.ts'

export interface GrpcOptions extends RlsOptions {
  readonly log: Logger
  /** Null: listens without TLS. */
  readonly tls: ListenTls | null
  readonly tracer?: Tracer | undefined
}

/** The enforcer's gRPC side: Envoy's rate limit service and grpc.health.v1. */
export interface GrpcServer {
  /** Listens, and gives the port; 0 takes a free one. Not serving, by its health, until `setServing`. */
  listen(host: string, port: number): Promise<number>
  /** What health says. Calls are answered whatever it says. */
  setServing(isServing: boolean): void
  /**
   * Takes no new calls and lets those under way finish. After `withinMs` the rest is cut off: a peer that has gone
   * without a word would hold the process. Idempotent.
   */
  drain(withinMs: number): Promise<void>
}

const SERVER_OPTIONS: ServerOptions = {
  'grpc.max_receive_message_length': CHECK_BODY_BYTES_MAX,
  // More of one connection could not be answered either; without a bound a peer that begins calls and never sends their
  // message, which nothing times out, fills the memory.
  'grpc.max_concurrent_streams': CHECKS_IN_FLIGHT_MAX,
  // A peer that is gone without a word is noticed within 40 s, so that its session does not stay for ever.
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
  // Debugging figures that nothing here reads; they cost a part of each call.
  'grpc.enable_channelz': 0,
}

export function createGrpcServer(options: GrpcOptions): GrpcServer {
  const server = new Server(SERVER_OPTIONS)
  const health = new Health([RLS_SERVICE])
  const { tracer } = options
  const answer = answering(options)
  server.addService(loadRlsService(), {
    ShouldRateLimit: tracer === undefined ? answer : tracedAnswer(tracer, answer),
  })
  server.addService(healthService, health.implementation())
  return {
    listen: (host, port) => bind(server, credentialsOf(options.tls), `${bracketed(host)}:${port}`),
    setServing: (isServing) => health.set(isServing),
    drain(withinMs) {
      health.close()
      return shutDown(server, withinMs)
    },
  }
}

function answering(options: GrpcOptions): handleUnaryCall<RlsRequest, RlsResponse> {
  const { callers } = options
  const answer = answerAnybody(options)
  if (callers === undefined) return answer
  return (call, callback) => {
    try {
      callers.require(call.metadata.get('authorization')[0]?.toString(), call.request.domain)
    } catch (err) {
      callback(explain(err, options))
      return
    }
    answer(call, callback)
  }
}

function answerAnybody(options: GrpcOptions): handleUnaryCall<RlsRequest, RlsResponse> {
  return ({ request }, callback) => {
    shouldRateLimit(options, request).then(
      (response) => callback(null, response),
      (err: unknown) => callback(explain(err, options)),
    )
  }
}

/** In the trace that the call's metadata name. */
function tracedAnswer(
  tracer: Tracer,
  answer: handleUnaryCall<RlsRequest, RlsResponse>,
): handleUnaryCall<RlsRequest, RlsResponse> {
  const notes = {
    'rpc.system': 'grpc',
    'rpc.service': RLS_SERVICE,
    'rpc.method': 'ShouldRateLimit',
  }
  return (call, callback) => {
    const from = (field: string): string | undefined => call.metadata.get(field)[0]?.toString()
    const name = `${RLS_SERVICE}/ShouldRateLimit`
    const span = tracer.begin({ name, kind: 'server', notes, from })
    if (span === null) return answer(call, callback)
    tracer.inside(span, () =>
      answer(call, (err, ...rest) => {
        span.end(err === null || err === undefined ? undefined : (err.details ?? err))
        callback(err, ...rest)
      }),
    )
  }
}

/** What a caller is told of a failure: of a bug only that there is one. */
function explain(err: unknown, options: GrpcOptions): Partial<ServiceError> {
  if (isQuotaError(err)) {
    countFailure(options, err.status)
    return { code: codeOf(err), details: err.message }
  }
  countFailure(options, 500)
  options.log.error({ err }, 'gRPC call failed unexpectedly')
  return { code: status.INTERNAL, details: 'an unexpected failure; the log has it' }
}

function codeOf(err: QuotaError): status {
  if (err.code === 'QUOTA_UNAUTHENTICATED') return status.UNAUTHENTICATED
  if (err.code === 'QUOTA_FORBIDDEN') return status.PERMISSION_DENIED
  return err.status < 500 ? status.INVALID_ARGUMENT : status.UNAVAILABLE
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

function bind(server: Server, credentials: ServerCredentials, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (err, bound) => {
      if (err === null) resolve(bound)
      else reject(err)
    })
  })
}

function shutDown(server: Server, withinMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown()
      resolve()
    }, withinMs)
    server.tryShutdown(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}
