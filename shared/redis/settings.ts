import { z } from 'zod'
import { pem, type Secret, secret } from '../runtime/env.ts'
import { refuseUnusableTls } from '../runtime/tls.ts'
import { parseRedisUrl, REDIS_URL_FORMS } from './address.ts'
import type { RedisTarget } from './client.ts'

/** Environment variables by which a service finds its region's Redis. Each can be a file: `REDIS_CA_FILE`. */
export const redisEnv = {
  REDIS_URL: z.string().refine((text) => parseRedisUrl(text) !== null, { error: REDIS_URL_FORMS }),
  REDIS_USERNAME: z.string().min(1).optional(),
  REDIS_PASSWORD: secret.optional(),
  REDIS_CA: pem.optional(),
  REDIS_CERT: pem.optional(),
  REDIS_KEY: secret.optional(),
}

interface RedisConfig {
  readonly REDIS_URL: string
  readonly REDIS_USERNAME?: string | undefined
  readonly REDIS_PASSWORD?: Secret | undefined
  readonly REDIS_CA?: string | undefined
  readonly REDIS_CERT?: string | undefined
  readonly REDIS_KEY?: Secret | undefined
}

/** The settings of the certificates for it. */
export const REDIS_CERTIFICATES = {
  use: 'redis',
  cert: 'REDIS_CERT',
  key: 'REDIS_KEY',
  ca: 'REDIS_CA',
} as const

const NAMES = [REDIS_CERTIFICATES.cert, REDIS_CERTIFICATES.key, REDIS_CERTIFICATES.ca] as const

/** Refuses certificates that could not be used, and those for a connection that is not to be TLS. */
export function refuseUnusableRedis(
  config: RedisConfig,
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  refuseUnusableTls({ ...config }, REDIS_CERTIFICATES, ctx)
  refuseUnusableLogin(config, ctx)
  const hasCertificates = NAMES.some((name) => config[name] !== undefined)
  if (!hasCertificates || config.REDIS_URL.startsWith('rediss')) return
  const message = 'must be a rediss:// or rediss+…:// URL, since certificates for Redis are set'
  ctx.addIssue({ code: 'custom', path: ['REDIS_URL'], message })
}

/** A name without a password lets nobody in, and of two passwords one would be used in silence. */
function refuseUnusableLogin(config: RedisConfig, ctx: Pick<z.RefinementCtx, 'addIssue'>): void {
  const { REDIS_URL: url, REDIS_USERNAME: username, REDIS_PASSWORD: password } = config
  const refuse = (name: string, message: string): void => {
    ctx.addIssue({ code: 'custom', path: [name], message })
  }
  if (username !== undefined && password === undefined) {
    refuse('REDIS_PASSWORD', 'missing; REDIS_USERNAME is set')
  }
  if (password !== undefined && /:\/\/[^/]*@/.test(url)) {
    refuse('REDIS_URL', 'must name no user, since REDIS_PASSWORD is set')
  }
}

/** What the clients of Redis take of those variables. */
export function redisTarget(config: RedisConfig): RedisTarget {
  const { REDIS_URL: url, REDIS_USERNAME: username, REDIS_PASSWORD: password } = config
  return {
    url,
    tls: {
      get ca() {
        return config.REDIS_CA
      },
      get cert() {
        return config.REDIS_CERT
      },
      get key() {
        return config.REDIS_KEY
      },
    },
    ...(password !== undefined && { login: { username, password } }),
  }
}
