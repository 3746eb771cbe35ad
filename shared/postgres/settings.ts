import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { z } from 'zod'
import { pem, type Secret, secret } from '../runtime/env.ts'
import { connectTls, refuseUnusableTls } from '../runtime/tls.ts'

/** Environment variables by which a service finds Postgres. Each can be a file: `DATABASE_CA_FILE`. */
export const databaseEnv = {
  // Not z.url(): libpq's form for a Unix socket, postgresql://user@/db?host=/run, has no host.
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\/\S+$/, { error: 'must be a postgresql:// URL' }),
  DATABASE_CA: pem.optional(),
  DATABASE_CERT: pem.optional(),
  DATABASE_KEY: secret.optional(),
}

interface DatabaseConfig {
  readonly DATABASE_URL: string
  readonly DATABASE_CA?: string | undefined
  readonly DATABASE_CERT?: string | undefined
  readonly DATABASE_KEY?: Secret | undefined
}

/** The settings of the certificates for it. */
export const DATABASE_CERTIFICATES = {
  use: 'postgres',
  cert: 'DATABASE_CERT',
  key: 'DATABASE_KEY',
  ca: 'DATABASE_CA',
} as const

const NAMES = [
  DATABASE_CERTIFICATES.cert,
  DATABASE_CERTIFICATES.key,
  DATABASE_CERTIFICATES.ca,
] as const

/** What a URL may say about TLS: the driver lets it win over everything else, so it would undo the settings. */
const TLS_PARAMETER = /[?&](ssl\w*|uselibpqcompat)=([^&]*)/g

/** Refuses certificates that could not be used, and a URL that says otherwise than them. */
export function refuseUnusableDatabase(
  config: DatabaseConfig,
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  refuseUnusableTls({ ...config }, DATABASE_CERTIFICATES, ctx)
  if (!hasCertificates(config)) return
  const refuse = (message: string): void => {
    ctx.addIssue({ code: 'custom', path: ['DATABASE_URL'], message })
  }
  for (const [, name, value] of config.DATABASE_URL.matchAll(TLS_PARAMETER)) {
    if (name === 'sslmode' && value === 'verify-full') continue
    refuse(`must not have ${name} beside DATABASE_CA or DATABASE_CERT; only sslmode=verify-full`)
  }
  if (hostOf(config.DATABASE_URL) === null) {
    refuse('must name a host, since certificates for Postgres are set; a Unix socket has no TLS')
  }
}

export interface DatabaseTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly rejectUnauthorized: true
  readonly checkServerIdentity?: (name: string, certificate: PeerCertificate) => Error | undefined
}

/**
 * What `createDatabase` takes of those variables. With a certificate of an authority or of one's own the connection is
 * TLS, and the server's certificate must be of that authority and name the host; else the URL decides (`sslmode`).
 */
export function databaseTarget(config: DatabaseConfig): {
  readonly url: string
  readonly tls: DatabaseTls | null
} {
  const { DATABASE_URL: url } = config
  if (!hasCertificates(config)) return { url, tls: null }
  const host = hostOf(url) ?? ''
  return {
    url: url.replace(/([?&])sslmode=verify-full(&|$)/, (_, before, after) =>
      after === '' ? '' : before,
    ),
    tls: Object.assign(
      connectTls({
        get ca() {
          return config.DATABASE_CA
        },
        get cert() {
          return config.DATABASE_CERT
        },
        get key() {
          return config.DATABASE_KEY
        },
      }),
      {
        rejectUnauthorized: true as const,
        // The driver passes on no address, and Node.js would look for the name `localhost` instead.
        ...(isIP(host) !== 0 && {
          checkServerIdentity: (_: string, certificate: PeerCertificate) =>
            checkServerIdentity(host, certificate),
        }),
      },
    ),
  }
}

function hasCertificates(config: DatabaseConfig): boolean {
  return NAMES.some((name) => config[name] !== undefined)
}

/** The host of a URL; null where there is none, or the parameter `host` names another. */
function hostOf(url: string): string | null {
  const { hostname, searchParams } = URL.canParse(url) ? new URL(url) : new URL('none:/')
  const host = searchParams.get('host') ?? decodeURIComponent(hostname)
  return host === '' || host.startsWith('/') ? null : host.replace(/^\[(.*)\]$/, '$1')
}
