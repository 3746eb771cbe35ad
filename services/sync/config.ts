import { z } from 'zod'
import { natsSecurityEnv } from '../../shared/nats/settings.ts'
import { REGION_PATTERN } from '../../shared/protocol/subjects.ts'
import { parseRedisUrl, REDIS_URL_FORMS } from '../../shared/redis/address.ts'
import { durationMs, logLevel, port } from '../../shared/runtime/env.ts'

/**
 * Settings of one sync daemon. What the regions must agree on (the length of loans, the beat of records) is a
 * constant of the protocol and not here.
 */
export const syncEnv = z.object({
  REGION: z.string().regex(REGION_PATTERN, 'must be lower-case letters, digits and hyphens'),
  REDIS_URL: z.string().refine((text) => parseRedisUrl(text) !== null, { error: REDIS_URL_FORMS }),
  /** One or more URLs, separated by commas. */
  NATS_URL: z.string().regex(/^(nats|tls):\/\//, 'must be a nats:// URL'),
  ...natsSecurityEnv,
  SYNC_HOST: z.string().min(1).default('0.0.0.0'),
  SYNC_PORT: port.default(7080),
  LOG_LEVEL: logLevel.default('info'),
  SHUTDOWN_DEADLINE_MS: durationMs.default(10_000),
})

export type SyncConfig = Readonly<z.infer<typeof syncEnv>>
