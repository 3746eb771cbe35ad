/**
 * A connection to NATS that is allowed to be away.
 *
 * The client library reconnects by itself, but neither makes a failed first connection again nor returns
 * after it has closed for good; `NatsLink` does both, so a service starts and goes on without NATS.
 */
import {
  type ConnectionOptions,
  connect,
  headers,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  nkeyAuthenticator,
} from 'nats'
import type { RegionId } from '../core/policy.ts'
import { QuotaError } from '../errors.ts'
import { inboxPrefix } from '../protocol/subjects.ts'
import type { Secret } from '../runtime/env.ts'
import type { Logger } from '../runtime/logger.ts'
import { connectTls } from '../runtime/tls.ts'

/** How soon after a failure the next attempt starts, before jitter. Short: a lapsing loan waits for us. */
const RECONNECT_WAIT_MS = 500

/** Random part of each wait, so that the clients of a server that returns do not all come at once. */
const RECONNECT_JITTER_MS = 500

/** A server that answers no ping for two of these counts as gone; the library's default takes 4 minutes. */
const PING_INTERVAL_MS = 5_000
const PINGS_OUT_MAX = 2

const CONNECT_TIMEOUT_MS = 2_000
const DRAIN_TIMEOUT_MS = 1_000

export interface NatsSecurity {
  /** Seed of the nkey by which the server knows this service. */
  readonly nkeySeed?: Secret | undefined
  /** PEM texts; `ca` in place of the system's certificates, the other two where the server asks for them. */
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: Secret | undefined
}

export interface NatsLinkOptions {
  /** One or more URLs, separated by commas. */
  readonly url: string
  /** Shown in the server's list of connections. */
  readonly name: string
  /** The region that asks by it, whose answers nobody else may hear; without it, an inbox that any may listen to. */
  readonly region?: RegionId | undefined
  /** How it says who it is, and whom it believes; without it, what the URL says. */
  readonly security?: NatsSecurity
  readonly log: Logger
}

/** Header fields of a message, such as those of a trace. */
type Fields = Readonly<Record<string, string>>

export class NatsLink {
  readonly #options: NatsLinkOptions
  readonly #users: ((connection: NatsConnection) => void)[] = []
  readonly #onReturn: (() => void)[] = []
  #connection: NatsConnection | undefined
  #isConnected = false
  #isClosing = false
  #hasWarned = false
  #endWait: (() => void) | undefined
  #running: Promise<void> | undefined

  constructor(options: NatsLinkOptions) {
    this.#options = options
  }

  /**
   * Calls `handle` with each connection that is made, for its subscriptions. They outlast a reconnection, so
   * a second call happens only after the library gave a connection up.
   */
  use(handle: (connection: NatsConnection) => void): void {
    this.#users.push(handle)
    if (this.#connection !== undefined) handle(this.#connection)
  }

  /** Calls `handle` each time the server can be reached again: what was sent meanwhile is lost. */
  onReconnect(handle: () => void): void {
    this.#onReturn.push(handle)
  }

  isConnected(): boolean {
    return this.#isConnected
  }

  /** Starts to connect and returns at once. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Sends if it can be sent now; otherwise the message is dropped and false is returned. Never throws. */
  publish(subject: string, payload: string | Uint8Array, fields?: Fields): boolean {
    const connection = this.#connection
    if (connection === undefined || !this.#isConnected || connection.isClosed()) return false
    try {
      connection.publish(subject, payload, withHeaders(fields))
      return true
    } catch (err) {
      this.#options.log.warn({ err, subject }, 'NATS message not sent')
      return false
    }
  }

  /** Asks and waits for one reply. Rejects with QUOTA_BUS_UNAVAILABLE when nobody answers in time. */
  async request(
    subject: string,
    payload: string,
    timeoutMs: number,
    fields?: Fields,
  ): Promise<string> {
    const connection = this.#connection
    if (connection === undefined || !this.#isConnected) {
      throw new QuotaError('QUOTA_BUS_UNAVAILABLE', `not connected to NATS; ${subject} not asked`)
    }
    try {
      const reply = await connection.request(subject, payload, {
        timeout: timeoutMs,
        ...withHeaders(fields),
      })
      return reply.string()
    } catch (cause) {
      throw new QuotaError('QUOTA_BUS_UNAVAILABLE', `no reply on ${subject}`, { cause })
    }
  }

  /** Sends what is buffered and closes. Resolves also when NATS is away. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#endWait?.()
    const connection = this.#connection
    if (connection !== undefined && !connection.isClosed()) {
      if (this.#isConnected) await drain(connection)
      await connection.close()
    }
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isClosing) {
      try {
        const connection = await connect(connectionOptions(this.#options))
        if (this.#isClosing) await connection.close()
        else await this.#useUntilClosed(connection)
      } catch (err) {
        this.#logFailure(err)
      }
      this.#isConnected = false
      this.#connection = undefined
      if (!this.#isClosing) await this.#wait()
    }
  }

  async #useUntilClosed(connection: NatsConnection): Promise<void> {
    this.#connection = connection
    this.#isConnected = true
    this.#hasWarned = false
    this.#options.log.info({ server: connection.getServer() }, 'NATS connected')
    void this.#watch(connection)
    for (const handle of this.#users) handle(connection)
    for (const handle of this.#onReturn) handle()
    const reason = await connection.closed()
    if (reason instanceof Error) throw reason
  }

  async #watch(connection: NatsConnection): Promise<void> {
    const { log } = this.#options
    for await (const status of connection.status()) {
      switch (status.type) {
        case 'disconnect':
          this.#isConnected = false
          log.warn({ server: status.server }, 'NATS disconnected')
          break
        case 'reconnect':
          this.#isConnected = true
          log.info({ server: status.server }, 'NATS reconnected')
          for (const handle of this.#onReturn) handle()
          break
        case 'error':
          log.warn({ err: status.error }, 'NATS error')
          break
        default:
          log.debug({ status: status.type }, 'NATS status')
      }
    }
  }

  /** Warns once for each time NATS goes away; the attempts that follow say the same. */
  #logFailure(err: unknown): void {
    const level = this.#hasWarned ? 'debug' : 'warn'
    this.#hasWarned = true
    this.#options.log[level]({ err }, 'NATS is not reachable')
  }

  async #wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, RECONNECT_WAIT_MS + Math.random() * RECONNECT_JITTER_MS)
      this.#endWait = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Reads the header fields of a message. */
export function fieldsOf(message: Msg): (field: string) => string | undefined {
  return (field) => message.headers?.get(field) || undefined
}

function withHeaders(fields: Fields | undefined): { readonly headers?: MsgHdrs } {
  if (fields === undefined) return {}
  const all = headers()
  for (const [name, value] of Object.entries(fields)) all.set(name, value)
  return { headers: all }
}

/** Draining waits for the server's word; one that has frozen must not hold a shutdown up. */
async function drain(connection: NatsConnection): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_TIMEOUT_MS)
  })
  await Promise.race([connection.drain().catch(() => {}), late])
  clearTimeout(timer)
}

function connectionOptions(options: NatsLinkOptions): ConnectionOptions {
  const urls = options.url.split(',').map((text) => new URL(text.trim()))
  const { username, password } = urls[0] ?? { username: '', password: '' }
  return {
    servers: urls.map((url) => `${url.protocol}//${url.host}`),
    // The library takes credentials only apart from the URL.
    ...(username !== '' && {
      user: decodeURIComponent(username),
      pass: decodeURIComponent(password),
    }),
    ...securityOptions(options.security),
    ...(options.region !== undefined && { inboxPrefix: inboxPrefix(options.region) }),
    name: options.name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_WAIT_MS,
    reconnectJitter: RECONNECT_JITTER_MS,
    // A rotated credential may be put right; giving up would need a restart.
    ignoreAuthErrorAbort: true,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: PINGS_OUT_MAX,
    timeout: CONNECT_TIMEOUT_MS,
  }
}

function securityOptions(security: NatsSecurity = {}): ConnectionOptions {
  const { nkeySeed } = security
  const tls = connectTls(security)
  return {
    ...(nkeySeed !== undefined && {
      authenticator: nkeyAuthenticator(new TextEncoder().encode(nkeySeed.reveal())),
    }),
    ...((tls.ca !== undefined || tls.cert !== undefined) && { tls }),
  }
}
