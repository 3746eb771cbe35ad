import { z } from 'zod'
import { durationMs, logLevel, port, secret } from '../../shared/runtime/env.ts'

/** Settings of the admin service. */
export const adminEnv = z.object({
  ADMIN_HOST: z.string().min(1).default('0.0.0.0'),
  ADMIN_PORT: port.default(7070),
  // Not z.url(): libpq's form for a Unix socket, postgresql://user@/db?host=/run, has no host.
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\/\S+$/, { error: 'must be a postgresql:// URL' }),
  /** One or more, separated by commas. */
  NATS_URL: z.string().regex(/^(nats|tls):\/\/\S+$/, { error: 'must be a nats:// URL' }),
  QUOTAPLANE_ADMIN_TOKEN: secret,
  LOG_LEVEL: logLevel.default('info'),
  SHUTDOWN_DEADLINE_MS: durationMs.default(10_000),
})

export type AdminConfig = Readonly<z.infer<typeof adminEnv>>
