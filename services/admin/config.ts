import { z } from 'zod'
import { natsSecurityEnv } from '../../shared/nats/settings.ts'
import { durationMs, logLevel, port, secret } from '../../shared/runtime/env.ts'

const httpsUrl = z.string().regex(/^https?:\/\/\S+$/, { error: 'must be an https:// URL' })

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
  ...natsSecurityEnv,
  /** Has every scope. Leave it out once tokens were made (`quotaplane admin init`). */
  QUOTAPLANE_ADMIN_TOKEN: secret.optional(),
  /** Access tokens of this issuer are taken; all three, or none. */
  OIDC_ISSUER: httpsUrl.optional(),
  OIDC_AUDIENCE: z.string().min(1).optional(),
  OIDC_JWKS_URL: httpsUrl.optional(),
  ADMIN_REQUESTS_PER_SECOND_MAX: z.coerce.number().int().min(1).max(1_000_000).default(1_000),
  LOG_LEVEL: logLevel.default('info'),
  SHUTDOWN_DEADLINE_MS: durationMs.default(10_000),
})

export type AdminConfig = Readonly<z.infer<typeof adminEnv>>
