/** Certificates by settings: what a service listens with, and what it shows and believes as a client. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { Server, ServerOptions } from 'node:https'
import type { z } from 'zod'
import type { Secret } from './env.ts'

/**
 * What a client believes a server by, and shows it. PEM texts. Looked at for each connection, since they may be renewed
 * meanwhile; which of them there are does not change.
 */
export interface ClientTls {
  /** In place of the system's authorities. */
  readonly ca?: string | undefined
  /** Where the server asks for one; with its key. */
  readonly cert?: string | undefined
  readonly key?: Secret | undefined
}

/** What a service listens with. PEM texts. */
export interface ListenTls {
  readonly cert: string
  readonly key: Secret
  /** Callers must show a certificate of this authority; without it anyone may call. */
  readonly clientCa?: string | undefined
  /** Told each time one of the texts was replaced; not there where none ever is. */
  onChange?(listener: () => void): void
}

/** Names of the settings that describe one certificate. */
export interface CertificateSettings {
  /** What it is shown for, in the log and in metrics. */
  readonly use: string
  readonly cert: string
  readonly key: string
  /** Certificates of authorities. */
  readonly ca: string
  /** Whether `ca` says whom to let in, which means nothing without a certificate of one's own. */
  readonly caNeedsCert?: boolean
}

/** The use of what a service listens with. */
export const LISTENER = 'listener'

/** The settings of a service's own listener. */
export function listenerNames(service: 'ENFORCER' | 'SYNC' | 'ADMIN'): CertificateSettings {
  return {
    use: LISTENER,
    cert: `${service}_TLS_CERT`,
    key: `${service}_TLS_KEY`,
    ca: `${service}_TLS_CLIENT_CA`,
    caNeedsCert: true,
  }
}

/** A caller that has not finished its handshake by then holds a connection for nothing. */
const HANDSHAKE_TIMEOUT_MS = 5_000

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Adds a problem for each setting that could not be used. Without this a service would start, and nobody could connect. */
export function refuseUnusableTls(
  config: Readonly<Record<string, unknown>>,
  names: CertificateSettings,
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
): void {
  for (const { name, message } of tlsProblems(config, names)) {
    ctx.addIssue({ code: 'custom', path: [name], message })
  }
}

/**
 * What could not be used, by the name of its setting: a certificate without its key or the other way round, what is no
 * certificate or no key, and a key that belongs to another certificate.
 */
export function tlsProblems(
  config: Readonly<Record<string, unknown>>,
  names: CertificateSettings,
): readonly { readonly name: string; readonly message: string }[] {
  const problems: { readonly name: string; readonly message: string }[] = []
  const refuse = (name: string, message: string): void => void problems.push({ name, message })
  const cert = config[names.cert] as string | undefined
  const key = config[names.key] as Secret | undefined
  const ca = config[names.ca] as string | undefined
  if (cert === undefined && key !== undefined) refuse(names.cert, `missing; ${names.key} is set`)
  if (cert !== undefined && key === undefined) refuse(names.key, `missing; ${names.cert} is set`)
  if (names.caNeedsCert === true && ca !== undefined && cert === undefined) {
    refuse(names.ca, `needs ${names.cert} and ${names.key}, or callers have nothing to connect to`)
  }
  if (ca !== undefined && !isCertificates(ca)) refuse(names.ca, 'has no readable certificate')
  if (cert !== undefined && key !== undefined) refuseUnusablePair(cert, key, names, refuse)
  return problems
}

function refuseUnusablePair(
  cert: string,
  key: Secret,
  names: CertificateSettings,
  refuse: (name: string, message: string) => void,
): void {
  if (!isCertificates(cert)) refuse(names.cert, 'has no readable certificate')
  else if (!isKey(key)) refuse(names.key, 'is no readable private key without a passphrase')
  else if (!belongTogether(cert, key)) refuse(names.key, `is not the key of ${names.cert}`)
}

function isCertificates(text: string): boolean {
  const all = text.match(CERTIFICATE) ?? []
  return all.length > 0 && all.every((one) => succeeds(() => new X509Certificate(one)))
}

function isKey(key: Secret): boolean {
  return succeeds(() => createPrivateKey(key.reveal()))
}

function belongTogether(cert: string, key: Secret): boolean {
  return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key.reveal()))
}

function succeeds(work: () => unknown): boolean {
  try {
    work()
    return true
  } catch {
    // What is wrong with it may quote it, and it may be a key.
    return false
  }
}

/** Has a listener use renewed certificates for the connections that follow. */
export function renewListener(server: unknown, tls: ListenTls | null | undefined): void {
  tls?.onChange?.(() => (server as Server).setSecureContext(serverTls(tls)))
}

/** Options for Node's HTTPS server. */
export function serverTls({ cert, key, clientCa }: ListenTls): ServerOptions {
  return {
    cert,
    key: key.reveal(),
    minVersion: 'TLSv1.2',
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
    ...(clientCa !== undefined && { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
  }
}

/**
 * Options of a connection for Node's TLS, in which what is not set is the system's. Each look at one gives the text as
 * it is then, so a driver that is given this object shows a renewed certificate when it connects again.
 */
export function connectTls(tls: ClientTls): {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
} {
  const parts = { ca: () => tls.ca, cert: () => tls.cert, key: () => tls.key?.reveal() }
  const options = {}
  for (const [name, get] of Object.entries(parts)) {
    if (get() === undefined) continue
    // The Postgres driver hides the key from listings, so it must be able to.
    Object.defineProperty(options, name, { get, enumerable: true, configurable: true })
  }
  return options
}
