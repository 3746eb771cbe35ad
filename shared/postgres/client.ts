import {
  Kysely,
  type PostgresCursor,
  PostgresDialect,
  type PostgresPoolClient,
  type PostgresQueryResult,
} from 'kysely'
import { type CustomTypesConfig, DatabaseError, types } from 'pg'
import { assert } from '../core/assert.ts'
import { QuotaError } from '../errors.ts'
import { Servers, urlsOf } from './servers.ts'
import { type DatabaseTls, tlsOf } from './settings.ts'

/** Most connections of one process; the few writers of a control plane queue on one row's lock anyway. */
const POOL_MAX = 10

/** Longest wait for a free or new connection. Past it a caller gets a 503 instead of a place in a queue. */
const ACQUIRE_TIMEOUT_MS = 1_500

/** The server gives up a lock, then a statement, before the client gives up the reply: then both know. */
const LOCK_TIMEOUT_MS = 2_000
const STATEMENT_TIMEOUT_MS = 4_000
const QUERY_TIMEOUT_MS = 5_000

const END_TIMEOUT_MS = 2_000

/** The server ends a transaction whose client has gone silent, so that it does not hold the plane's lock. */
const IDLE_TRANSACTION_TIMEOUT_MS = 10_000

const INT8_OID = 20

export interface DatabaseOptions {
  /** Of one server, or of several of which the one that takes writes is used. */
  readonly url: string
  /** Null or not given: as the URL says. */
  readonly tls?: DatabaseTls | null
  readonly poolMax?: number
  readonly acquireTimeoutMs?: number
  /** Told of every connection that fails while idle, as all do when the server restarts. */
  readonly onIdleError: (err: Error) => void
}

/**
 * Opens a connection pool; no connection is made before the first query.
 *
 * Where the server cannot be reached or does not answer in time, a query rejects with
 * QUOTA_DATABASE_UNAVAILABLE, and its connection is thrown away, since what it still holds is not known.
 * Every other failure is passed on as it is. `int8` arrives as a number, asserted to be a safe integer.
 */
export function createDatabase<Tables>(options: DatabaseOptions): Kysely<Tables> {
  const configs = urlsOf(options.url).map((url) => ({
    connectionString: url,
    ...(options.tls && { ssl: tlsOf(options.tls, url) }),
    max: options.poolMax ?? POOL_MAX,
    connectionTimeoutMillis: options.acquireTimeoutMs ?? ACQUIRE_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
    keepAlive: true,
    types: INT8_AS_NUMBER,
  }))
  const servers = new Servers(configs, options.onIdleError)
  return new Kysely<Tables>({
    dialect: new PostgresDialect({
      pool: { connect: () => connect(servers), end: () => end(servers) },
    }),
  })
}

async function connect(servers: Servers): Promise<PostgresPoolClient> {
  const client = await servers.connect().catch((cause: unknown) => {
    throw unavailable(cause)
  })
  let isBroken = false
  // A server that goes away between two statements of a transaction tells the client, not a query: without a
  // listener that event ends the process.
  const onError = (): void => {
    isBroken = true
  }
  client.on('error', onError)
  function query<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>
  function query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>
  function query(sql: unknown, parameters?: readonly unknown[]): unknown {
    assert(typeof sql === 'string', 'cursors are not used')
    // A rollback on a connection that no longer answers would only wait its time out too.
    if (isBroken) return Promise.reject(unavailable(undefined))
    return client.query(sql, [...(parameters ?? [])]).catch((err: unknown) => {
      if (!isUnavailability(err)) throw err
      isBroken = !(err instanceof DatabaseError) || err.code === READ_ONLY_STATE
      throw unavailable(err)
    })
  }
  const release = (): void => {
    client.off('error', onError)
    client.release(isBroken)
  }
  return { query, release }
}

/** A server that has frozen does not say goodbye; nothing is lost by leaving without it. */
async function end(servers: Servers): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, END_TIMEOUT_MS)
  })
  await Promise.race([servers.end(), late])
  clearTimeout(timer)
}

function unavailable(cause: unknown): QuotaError {
  return new QuotaError('QUOTA_DATABASE_UNAVAILABLE', 'Postgres did not answer in time', { cause })
}

/**
 * What a server says to a write once another was promoted in its place. The connection would live on and refuse every
 * further write, so it is thrown away: a new one finds the primary.
 */
const READ_ONLY_STATE = '25006'

/** Classes 08 connection, 53 resources, 57P operator; 57014 statement and 55P03 lock ran out of time. */
const UNAVAILABLE_STATES = /^(08|53|57P|57014|55P03|25P03|25006)/
const SYSTEM_ERROR = /^E[A-Z]+$/
const PG_CONNECTION_MESSAGES = /^(Connection terminated|Client has encountered|Query read timeout)/

function isUnavailability(err: unknown): boolean {
  if (err instanceof DatabaseError) return UNAVAILABLE_STATES.test(err.code ?? '')
  if (!(err instanceof Error)) return false
  if ('code' in err && typeof err.code === 'string' && SYSTEM_ERROR.test(err.code)) return true
  return PG_CONNECTION_MESSAGES.test(err.message)
}

const INT8_AS_NUMBER: CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    Number(oid) === INT8_OID && format !== 'binary'
      ? parseInt8
      : types.getTypeParser(Number(oid), format),
}

function parseInt8(text: string): number {
  const value = Number(text)
  assert(Number.isSafeInteger(value), 'an int8 column holds a safe integer')
  return value
}
