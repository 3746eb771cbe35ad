import { z } from 'zod'
import { natsSecurityEnv, refuseUnusableNats } from '../../shared/nats/settings.ts'
import { databaseEnv, refuseUnusableDatabase } from '../../shared/postgres/settings.ts'
import { durationMs, logLevel, pem, port, secret } from '../../shared/runtime/env.ts'
import { listenerNames, refuseUnusableTls } from '../../shared/runtime/tls.ts'
import { tracingEnv } from '../../shared/runtime/tracing/settings.ts'

const httpsUrl = z.string().regex(/^https?:\/\/\S+$/, { error: 'must be an https:// URL' })

const settings = z.object({
  ADMIN_HOST: z.string().min(1).default('0.0.0.0'),
  ADMIN_PORT: port.default(7070),
  ADMIN_TLS_CERT: pem.optional(),
  ADMIN_TLS_KEY: secret.optional(),
  /** Callers, browsers included, need a certificate of it where it is set. */
  ADMIN_TLS_CLIENT_CA: pem.optional(),
  ...databaseEnv,
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
  ...tracingEnv,
})

/** Settings of the admin service. */
export const adminEnv = settings.superRefine((config, ctx) => {
  refuseUnusableDatabase(config, ctx)
  refuseUnusableNats(config, ctx)
  refuseUnusableTls(config, listenerNames('ADMIN'), ctx)
})

export type AdminConfig = Readonly<z.infer<typeof adminEnv>>
