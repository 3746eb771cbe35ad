import { z } from 'zod'
import { pem, type Secret, secret } from '../runtime/env.ts'
import { type ClientTls, refuseUnusableTls } from '../runtime/tls.ts'
import { parseRedisUrl, REDIS_URL_FORMS } from './address.ts'

/** Environment variables by which a service finds its region's Redis. Each can be a file: `REDIS_CA_FILE`. */
export const redisEnv = {
  REDIS_URL: z.string().refine((text) => parseRedisUrl(text) !== null, { error: REDIS_URL_FORMS }),
  REDIS_CA: pem.optional(),
  REDIS_CERT: pem.optional(),
  REDIS_KEY: secret.optional(),
}

interface RedisConfig {
  readonly REDIS_URL: string
  readonly REDIS_CA?: string | undefined
  readonly REDIS_CERT?: string | undefined
  readonly REDIS_KEY?: Secret | undefined
}

const NAMES = { cert: 'REDIS_CERT', key: 'REDIS_KEY', ca: 'REDIS_CA' } as const

/** Refuses certificates that could not be used, and those for a connection that is not to be TLS. */
export function refuseUnusableRedis(
  config: RedisConfig,
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  refuseUnusableTls({ ...config }, NAMES, ctx)
  const hasCertificates = Object.values(NAMES).some((name) => config[name] !== undefined)
  if (!hasCertificates || config.REDIS_URL.startsWith('rediss')) return
  const message = 'must be a rediss:// or rediss+…:// URL, since certificates for Redis are set'
  ctx.addIssue({ code: 'custom', path: ['REDIS_URL'], message })
}

/** What the clients of Redis take of those variables. */
export function redisTarget(config: RedisConfig): {
  readonly url: string
  readonly tls: ClientTls
} {
  const { REDIS_URL: url, REDIS_CA: ca, REDIS_CERT: cert, REDIS_KEY: key } = config
  return { url, tls: { ca, cert, key } }
}
