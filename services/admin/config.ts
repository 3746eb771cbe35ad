import { z } from 'zod'
import { natsSecurityEnv, natsUrl, refuseUnusableNats } from '../../shared/nats/settings.ts'
import { databaseEnv, refuseUnusableDatabase } from '../../shared/postgres/settings.ts'
import { durationMs, logLevel, longSecret, pem, port, secret } from '../../shared/runtime/env.ts'
import { listenerNames, refuseUnusableTls } from '../../shared/runtime/tls.ts'
import { tracingEnv } from '../../shared/runtime/tracing/settings.ts'

const httpsUrl = z.string().regex(/^https?:\/\/\S+$/, { error: 'must be an https:// URL' })

const PLANE_TOKEN_LENGTH_MIN = 16

/** It has every scope, and no end. */
const planeToken = longSecret(PLANE_TOKEN_LENGTH_MIN)

const OIDC = ['OIDC_ISSUER', 'OIDC_AUDIENCE', 'OIDC_JWKS_URL'] as const

const settings = z.object({
  ADMIN_HOST: z.string().min(1).default('0.0.0.0'),
  ADMIN_PORT: port.default(7070),
  ADMIN_TLS_CERT: pem.optional(),
  ADMIN_TLS_KEY: secret.optional(),
  /** Callers, browsers included, need a certificate of it where it is set. */
  ADMIN_TLS_CLIENT_CA: pem.optional(),
  ...databaseEnv,
  /** One or more, separated by commas. */
  NATS_URL: natsUrl,
  ...natsSecurityEnv,
  /** Has every scope. Leave it out once tokens were made (`quotaplane admin init`). */
  QUOTAPLANE_ADMIN_TOKEN: planeToken.optional(),
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
  const missing = OIDC.filter((name) => config[name] === undefined)
  if (missing.length === OIDC.length) return
  // Some of the three would leave tokens unchecked, or always refused.
  for (const name of missing) {
    ctx.addIssue({
      code: 'custom',
      path: [name],
      message: `missing; set ${OIDC.join(', ')} or none`,
    })
  }
})

export type AdminConfig = Readonly<z.infer<typeof adminEnv>>
