import { type RedisOptions as AllDriverOptions, Redis } from 'ioredis'
import type { Secret } from '../runtime/env.ts'
import { type ClientTls, connectTls } from '../runtime/tls.ts'
import { type HostPort, parseRedisUrl, REDIS_URL_FORMS, type RedisAccess } from './address.ts'

/** Longest that a connection may take to open. Redis is near; longer means it is not there. */
const CONNECT_TIMEOUT_MS = 1_000
/** A connection on which a reply is overdue by this is taken for cut, and made anew. */
const SILENCE_MS_MAX = 2_000
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 1_000

/** Where a Redis is, and as whom to connect. */
export interface RedisTarget {
  /** A form of `parseRedisUrl`. */
  readonly url: string
  /** Certificates, where the URL asks for TLS; without it the system's authorities are believed. */
  readonly tls?: ClientTls
  /** In place of what the URL says; without a name it is Redis' `default`. */
  readonly login?: { readonly username?: string | undefined; readonly password: Secret }
}

/** The URL must lead to one server. */
export interface RedisOptions extends RedisTarget {
  /** Shown by CLIENT LIST. */
  readonly name: string
  /** Told of each connection error; without a listener one would end the process. */
  readonly onError: (err: Error) => void
}

type DriverOptions = Omit<AllDriverOptions, 'replyMapping'>

export type NodeOptions = Omit<RedisOptions, 'url'> & { readonly access: RedisAccess }

/**
 * A client that reconnects for as long as it lives, and never repeats or holds back a command.
 *
 * A command on a link that is down rejects at once; one whose reply was lost rejects and is not sent again,
 * because a check that counted must not count twice. Behind sentinels it follows their master.
 */
export function createRedis(options: RedisOptions): Redis {
  return create(options, serverOf(options), LASTING)
}

/**
 * A client for one connection: `connect` it once; when that ends, it stays closed.
 *
 * For the sync daemon, which must notice each break: what it wrote just before may or may not be there.
 */
export function createSingleConnection(options: RedisOptions): Redis {
  return create(options, serverOf(options), ONCE)
}

/** One node of a cluster, as `createRedis` or, for one connection, as `createSingleConnection`. */
export function createNode(
  options: NodeOptions,
  at: HostPort,
  connection: 'lasting' | 'single',
): Redis {
  const server = { ...at, ...credentials(options.access, options.tls) }
  return create(options, server, connection === 'lasting' ? LASTING : ONCE)
}

/** Jitter, so that the enforcers of a region do not come back in step after a restart of Redis. */
export function reconnectDelayMs(attempt: number): number {
  return Math.min(RECONNECT_MS_MIN * 2 ** attempt, RECONNECT_MS_MAX) * (0.5 + Math.random() / 2)
}

const LASTING: DriverOptions = {
  lazyConnect: false,
  socketTimeout: SILENCE_MS_MAX,
  retryStrategy: reconnectDelayMs,
  sentinelRetryStrategy: reconnectDelayMs,
  // A master that was demoted: sentinels, or a name, lead to another by now. The command is not sent again.
  reconnectOnError: (err) => err.message.startsWith('READONLY'),
}

const ONCE: DriverOptions = {
  lazyConnect: true,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
}

function create(
  options: Pick<RedisOptions, 'name' | 'onError' | 'login'>,
  server: DriverOptions,
  reconnection: DriverOptions,
): Redis {
  const all: DriverOptions = {
    ...server,
    ...loginOf(options),
    connectionName: options.name,
    connectTimeout: CONNECT_TIMEOUT_MS,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    ...reconnection,
  }
  const redis = new Redis(all)
  redis.on('error', options.onError)
  return redis
}

function loginOf({ login }: Pick<RedisTarget, 'login'>): DriverOptions {
  if (login === undefined) return {}
  const { username, password } = login
  return { ...(username !== undefined && { username }), password: password.reveal() }
}

function serverOf({ url, tls }: RedisOptions): DriverOptions {
  const address = parseRedisUrl(url)
  if (address === null) throw new Error(`the address of Redis ${REDIS_URL_FORMS}`)
  if (address.kind === 'single') return singleServer(address.url, tls)
  if (address.kind === 'cluster') throw new Error('a cluster is not one server')
  const { sentinels, name, access } = address
  const transport = credentials(access, tls)
  return {
    sentinels: sentinels.map((one) => ({ ...one })),
    name,
    ...transport,
    // Without these the driver speaks to both in plain text, password included.
    ...(transport.tls && { enableTLSForSentinelMode: true, sentinelTLS: transport.tls }),
  }
}

function singleServer(text: string, tls: ClientTls | undefined): DriverOptions {
  if (text.startsWith('/')) return { path: text }
  const url = new URL(text)
  if (url.protocol === 'unix:') return { path: url.pathname }
  const { isTls, ...user } = userOf(url)
  const db = url.pathname.slice(1)
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? 6_379 : Number(url.port),
    ...(db !== '' && { db: Number(db) }),
    ...credentials({ ...user, isTls }, tls),
  }
}

function userOf(url: URL): RedisAccess {
  return {
    isTls: url.protocol === 'rediss:',
    ...(url.username !== '' && { username: decodeURIComponent(url.username) }),
    ...(url.password !== '' && { password: decodeURIComponent(url.password) }),
  }
}

function credentials(
  { isTls, username, password }: RedisAccess,
  tls: ClientTls = {},
): DriverOptions {
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(isTls && { tls: connectTls(tls) }),
  }
}
