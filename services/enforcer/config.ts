import { availableParallelism } from 'node:os'
import { z } from 'zod'
import { IPV6_PREFIX_MAX, IPV6_PREFIX_MIN } from '../../shared/core/client-address.ts'
import { HEADER_FAMILIES, parseHeaderChoice } from '../../shared/protocol/rate-limit-headers.ts'
import { REGION_PATTERN } from '../../shared/protocol/subjects.ts'
import { CHECK_DEADLINE_MS } from '../../shared/redis/check-store.ts'
import { redisEnv, refuseUnusableRedis } from '../../shared/redis/settings.ts'
import { durationMs, logLevel, longSecret, pem, port, secret } from '../../shared/runtime/env.ts'
import { listenerNames, refuseUnusableTls } from '../../shared/runtime/tls.ts'
import { tracingEnv } from '../../shared/runtime/tracing/settings.ts'

const headerFamilies = z.string().refine((text) => parseHeaderChoice(text) !== null, {
  error: `must name one or more of ${HEADER_FAMILIES.join(', ')}, separated by commas`,
})

const DEBUG_TOKEN_LENGTH_MIN = 16

/** More processes than any host has processors. */
const WORKERS_MAX = 256

const settings = z.object({
  ENFORCER_HOST: z.string().default('127.0.0.1'),
  ENFORCER_PORT: port.default(8080),
  /** Envoy's rate limit service; 0 takes a free port. */
  ENFORCER_GRPC_PORT: port.default(8081),
  /** Of HTTP and gRPC; callers need a certificate of `…_CLIENT_CA` where it is set. */
  ENFORCER_TLS_CERT: pem.optional(),
  ENFORCER_TLS_KEY: secret.optional(),
  ENFORCER_TLS_CLIENT_CA: pem.optional(),
  /** Processes that share the ports, 0: one a processor; `--workers` says the same. */
  ENFORCER_WORKERS: z.coerce.number().int().min(0).max(WORKERS_MAX).default(1),
  REGION: z.string().regex(REGION_PATTERN, 'must be a region name such as us-east-1'),
  ...redisEnv,
  /**
   * How long Redis may be silent before the failure behaviour of a check's policies decides. Each time-out may admit
   * what the limit would not; on a host that Redis shares with others, where it may have to wait for a processor, take
   * 50 and more.
   */
  REDIS_DEADLINE_MS: durationMs.default(CHECK_DEADLINE_MS),
  /** Families of rate limit header fields that an answer has when its request does not choose. */
  RATE_LIMIT_HEADERS: headerFamilies.default('draft'),
  /** Proxies whose entries in `X-Forwarded-For` are believed, counted from the right; 0 believes none. */
  TRUSTED_PROXY_HOPS: z.coerce.number().int().min(0).max(16).default(0),
  /** IPv6 senders are told apart by a network of this many bits. */
  SENDER_NETWORK_BITS: z.coerce
    .number()
    .int()
    .min(IPV6_PREFIX_MIN)
    .max(IPV6_PREFIX_MAX)
    .default(64),
  /** Whether callers must send a token with the scope `quota:check`. */
  ENFORCER_REQUIRE_TOKEN: z.enum(['true', 'false']).default('false'),
  /** Who sends it may see a sample of decisions; without it nobody may. */
  ENFORCER_DEBUG_TOKEN: longSecret(DEBUG_TOKEN_LENGTH_MIN).optional(),
  LOG_LEVEL: logLevel.default('info'),
  /** One bound for everything that shutting down does, the drain delay included. */
  SHUTDOWN_DEADLINE_MS: durationMs.default(10_000),
  /** How long to go on answering after readiness has failed: what a load balancer needs to notice. */
  DRAIN_DELAY_MS: z.coerce.number().int().min(0).max(600_000).default(0),
  ...tracingEnv,
})

/** The enforcer's settings, by environment variable. */
export const enforcerEnv = settings.superRefine((config, ctx) => {
  refuseUnusableRedis(config, ctx)
  refuseUnusableTls(config, listenerNames('ENFORCER'), ctx)
  const refuse = (name: string, message: string): void => {
    ctx.addIssue({ code: 'custom', path: [name], message })
  }
  if (config.DRAIN_DELAY_MS >= config.SHUTDOWN_DEADLINE_MS) {
    refuse(
      'DRAIN_DELAY_MS',
      'must be below SHUTDOWN_DEADLINE_MS, which bounds all of shutting down',
    )
  }
  if (config.ENFORCER_PORT !== 0 && config.ENFORCER_PORT === config.ENFORCER_GRPC_PORT) {
    refuse('ENFORCER_GRPC_PORT', 'must be another port than ENFORCER_PORT')
  }
})

export type EnforcerConfig = Readonly<z.infer<typeof enforcerEnv>>

/** Whether callers must say who they are. */
export function asksCallers(config: EnforcerConfig): boolean {
  return config.ENFORCER_REQUIRE_TOKEN === 'true'
}

export function workersOf(config: EnforcerConfig): number {
  return config.ENFORCER_WORKERS === 0 ? availableParallelism() : config.ENFORCER_WORKERS
}
