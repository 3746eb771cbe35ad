/**
 * The servers that one URL names, as libpq writes them: `postgresql://u@one:5432,two:5433/db`. One of them takes writes at a
 * time, and which changes in a failover.
 *
 * The driver knows one server alone. So each has a pool of its own, a new connection is looked at before it is used, and
 * what leads to a server that takes no writes is passed over for the next.
 */
import { Pool, type PoolClient, type PoolConfig } from 'pg'

/** A primary and its replicas. Each that is cut off may cost a wait for a connection before the next is tried. */
export const SERVERS_MAX = 5

/** Scheme and account, then the servers, then the rest. */
const PARTS = /^(\w+:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/

/** What libpq calls a server that takes writes; of several no other is of use. */
const SESSION = /([?&])target_session_attrs=[^&]*(&|$)/

/** A URL for each server that a URL names. */
export function urlsOf(url: string): readonly string[] {
  const [, before = '', hosts = '', after = ''] = PARTS.exec(url) ?? []
  const rest = after.replace(SESSION, (_, start, end) => (end === '' ? '' : start))
  if (!hosts.includes(',')) return [`${before}${hosts}${rest}`]
  return hosts.split(',').map((host) => `${before}${host}${rest}`)
}

/** Gives connections to whichever of the servers takes writes. */
export class Servers {
  readonly #pools: readonly Pool[]
  /** The one that was of use last. */
  #at = 0

  constructor(configs: readonly PoolConfig[], onIdleError: (err: Error) => void) {
    const isOneOfMany = configs.length > 1
    this.#pools = configs.map((config) => {
      const pool = new Pool({ ...config, ...(isOneOfMany && { verify: refuseReadOnly }) })
      // Without a listener a server restart under an idle pool is an unhandled `error` event that ends the process.
      pool.on('error', onIdleError)
      return pool
    })
  }

  /** A connection to the server that was of use last, or to the next that is; rejects when none is. */
  async connect(): Promise<PoolClient> {
    const first = this.#at
    let failure: unknown
    for (let tried = 0; tried < this.#pools.length; tried++) {
      const at = (first + tried) % this.#pools.length
      try {
        const client = await this.#pools[at]?.connect()
        if (client === undefined) continue
        this.#at = at
        return client
      } catch (err) {
        failure ??= err
      }
    }
    throw failure
  }

  async end(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.end()))
  }
}

/** A replica, or a primary that was demoted. */
function refuseReadOnly(client: PoolClient, done: (err?: Error) => void): void {
  client.query<{ transaction_read_only: string }>('show transaction_read_only').then(
    ({ rows }) => {
      const isReadOnly = rows[0]?.transaction_read_only !== 'off'
      done(isReadOnly ? new Error('this server takes no writes') : undefined)
    },
    (err: unknown) => done(err instanceof Error ? err : new Error(String(err))),
  )
}
