import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { z } from 'zod'
import { pem, type Secret, secret } from '../runtime/env.ts'
import { connectTls, refuseUnusableTls } from '../runtime/tls.ts'
import { SERVERS_MAX, urlsOf } from './servers.ts'

// Not z.url(): libpq's form for a Unix socket, postgresql://user@/db?host=/run, has no host.
const databaseUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\/\S+$/, { error: 'must be a postgresql:// URL' })

/** Environment variables by which a service finds Postgres. Each can be a file: `DATABASE_CA_FILE`. */
export const databaseEnv = {
  DATABASE_URL: databaseUrl,
  DATABASE_CA: pem.optional(),
  DATABASE_CERT: pem.optional(),
  DATABASE_KEY: secret.optional(),
}

/** The same of the command, which changes the schema as its owner for a service that may not. */
export const migrationEnv = z
  .object({ DATABASE_MIGRATION_URL: databaseUrl, ...databaseEnv })
  .superRefine((config, ctx) => {
    refuseUnusableDatabase(config, ctx)
    const refuse = refuserOf('DATABASE_MIGRATION_URL', ctx)
    refuseUnusableUrl({ ...config, DATABASE_URL: config.DATABASE_MIGRATION_URL }, refuse)
    refuseUnusableRoles(config, ctx)
  })

function refuseUnusableRoles(
  config: { readonly DATABASE_URL: string; readonly DATABASE_MIGRATION_URL: string },
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  const refuse = refuserOf('DATABASE_URL', ctx)
  const { name } = databaseUser(config.DATABASE_URL)
  if (name === '') refuse('must name the role that admins connect as')
  else if (name === databaseUser(config.DATABASE_MIGRATION_URL).name) {
    refuse('must name another role than DATABASE_MIGRATION_URL, or admins could do all that it can')
  }
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
  refuseUnusableUrl(config, refuserOf('DATABASE_URL', ctx))
}

function refuserOf(
  setting: 'DATABASE_URL' | 'DATABASE_MIGRATION_URL',
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): (message: string) => void {
  return (message) => ctx.addIssue({ code: 'custom', path: [setting], message })
}

function refuseUnusableUrl(config: DatabaseConfig, refuse: (message: string) => void): void {
  refuseUnusableServers(config.DATABASE_URL, refuse)
  if (!hasCertificates(config)) return
  for (const [, name, value] of config.DATABASE_URL.matchAll(TLS_PARAMETER)) {
    if (name === 'sslmode' && value === 'verify-full') continue
    refuse(`must not have ${name} beside DATABASE_CA or DATABASE_CERT; only sslmode=verify-full`)
  }
  if (urlsOf(config.DATABASE_URL).some((url) => hostOf(url) === null)) {
    refuse('must name a host, since certificates for Postgres are set; a Unix socket has no TLS')
  }
}

/** Several servers are for a failover; everything else that libpq would take of them is not for admin. */
function refuseUnusableServers(url: string, refuse: (message: string) => void): void {
  const urls = urlsOf(url)
  if (urls.length > SERVERS_MAX) refuse(`must name at most ${SERVERS_MAX} servers`)
  if (urls.length > 1 && !urls.every((one) => URL.canParse(one) && new URL(one).hostname !== '')) {
    refuse('must name servers as host:port,host:port before the database')
  }
  for (const [, list] of url.matchAll(/[?&](?:host|port)=([^&]*)/g)) {
    if (!/,|%2c/i.test(list ?? '')) continue
    refuse('must name several servers before the database: postgresql://one:5432,two:5432/plane')
  }
  const [, wanted = 'read-write'] = /[?&]target_session_attrs=([^&]*)/.exec(url) ?? []
  if (wanted === 'read-write' || wanted === 'primary') return
  refuse(
    'must have target_session_attrs=read-write or none: admin needs the server that takes writes',
  )
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
  return {
    url: url.replace(/([?&])sslmode=verify-full(&|$)/, (_, before, after) =>
      after === '' ? '' : before,
    ),
    tls: tlsOf(
      Object.assign(
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
        { rejectUnauthorized: true as const },
      ),
      url,
    ),
  }
}

/**
 * TLS for the server of this URL, of several: its certificate must name its address. The driver passes on no address,
 * and Node.js would look for the name `localhost` instead.
 */
export function tlsOf(tls: DatabaseTls, url: string): DatabaseTls {
  const host = hostOf(url) ?? ''
  if (isIP(host) === 0) return tls
  // Certificates are read anew each time, so what reads them is kept, and not what it read.
  return Object.defineProperties({} as DatabaseTls, {
    ...Object.getOwnPropertyDescriptors(tls),
    checkServerIdentity: {
      enumerable: true,
      value: (_: string, certificate: PeerCertificate) => checkServerIdentity(host, certificate),
    },
  })
}

/** As whom a URL connects: an empty name where it does not say. */
export function databaseUser(url: string): {
  readonly name: string
  readonly password: string | null
} {
  const [, name = '', password] = /^\w+:\/\/(?:([^:@/?]*)(?::([^@/]*))?@)?/.exec(url) ?? []
  return { name: decoded(name), password: password ? decoded(password) : null }
}

/** What is not encoded as it should be is left, and the driver refuses the URL. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
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
