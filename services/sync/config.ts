import { z } from 'zod'
import { natsSecurityEnv, natsUrl, refuseUnusableNats } from '../../shared/nats/settings.ts'
import { REGION_PATTERN } from '../../shared/protocol/subjects.ts'
import { redisEnv, refuseUnusableRedis } from '../../shared/redis/settings.ts'
import { durationMs, logLevel, pem, port, secret } from '../../shared/runtime/env.ts'
import { listenerNames, refuseUnusableTls } from '../../shared/runtime/tls.ts'
import { tracingEnv } from '../../shared/runtime/tracing/settings.ts'

const settings = z.object({
  REGION: z.string().regex(REGION_PATTERN, 'must be lower-case letters, digits and hyphens'),
  ...redisEnv,
  /** One or more URLs, separated by commas. */
  NATS_URL: natsUrl,
  ...natsSecurityEnv,
  SYNC_HOST: z.string().min(1).default('0.0.0.0'),
  SYNC_PORT: port.default(7080),
  SYNC_TLS_CERT: pem.optional(),
  SYNC_TLS_KEY: secret.optional(),
  SYNC_TLS_CLIENT_CA: pem.optional(),
  LOG_LEVEL: logLevel.default('info'),
  SHUTDOWN_DEADLINE_MS: durationMs.default(10_000),
  ...tracingEnv,
})

/**
 * Settings of one sync daemon. What the regions must agree on (the length of loans, the beat of records) is a
 * constant of the protocol and not here.
 */
export const syncEnv = settings.superRefine((config, ctx) => {
  refuseUnusableRedis(config, ctx)
  refuseUnusableNats(config, ctx)
  refuseUnusableTls(config, listenerNames('SYNC'), ctx)
})

export type SyncConfig = Readonly<z.infer<typeof syncEnv>>
