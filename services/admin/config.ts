import { z } from 'zod'
import { durationMs, logLevel, port, secret } from '../../shared/runtime/env.ts'

/** Settings of the admin service. */
export const adminEnv = z.object({
  ADMIN_HOST: z.string().min(1).default('0.0.0.0'),
  ADMIN_PORT: port.default(7070),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  NATS_URL: z.string().min(1),
  QUOTAPLANE_ADMIN_TOKEN: secret,
  LOG_LEVEL: logLevel.default('info'),
  SHUTDOWN_DEADLINE_MS: durationMs.default(10_000),
})

export type AdminConfig = Readonly<z.infer<typeof adminEnv>>
