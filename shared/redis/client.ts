import { type CommonRedisOptions, Redis } from 'ioredis'

/** Longest that a connection may take to open. Redis is near; longer means it is not there. */
const CONNECT_TIMEOUT_MS = 1_000
/** A connection on which a reply is overdue by this is taken for cut, and made anew. */
const SILENCE_MS_MAX = 2_000
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 1_000

export interface RedisOptions {
  /** `redis://`, `rediss://`, or the path of a unix socket. */
  readonly url: string
  /** Shown by CLIENT LIST. */
  readonly name: string
  /** Told of each connection error; without a listener one would end the process. */
  readonly onError: (err: Error) => void
}

/**
 * A client that reconnects for as long as it lives, and never repeats or holds back a command.
 *
 * A command on a link that is down rejects at once; one whose reply was lost rejects and is not sent again,
 * because a check that counted must not count twice.
 */
export function createRedis(options: RedisOptions): Redis {
  return create(options, {
    lazyConnect: false,
    socketTimeout: SILENCE_MS_MAX,
    // Jitter, so that the enforcers of a region do not come back in step after a restart of Redis.
    retryStrategy: (attempt) =>
      Math.min(RECONNECT_MS_MIN * 2 ** attempt, RECONNECT_MS_MAX) * (0.5 + Math.random() / 2),
  })
}

/**
 * A client for one connection: `connect` it once; when that ends, it stays closed.
 *
 * For the sync daemon, which must notice each break: what it wrote just before may or may not be there.
 */
export function createSingleConnection(options: RedisOptions): Redis {
  return create(options, { lazyConnect: true, retryStrategy: () => null })
}

function create(
  options: RedisOptions,
  reconnection: Pick<CommonRedisOptions, 'lazyConnect' | 'retryStrategy' | 'socketTimeout'>,
): Redis {
  const redis = new Redis(options.url, {
    connectionName: options.name,
    connectTimeout: CONNECT_TIMEOUT_MS,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    ...reconnection,
  })
  redis.on('error', options.onError)
  return redis
}
