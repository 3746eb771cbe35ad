import { createHash } from 'node:crypto'
import {
  counterKey,
  enforcerKey,
  groupKeys,
  leaseKey,
  NEWS_CHANNEL,
  REGION_KEYS,
  refundKey,
} from '../../../shared/redis/keys.ts'

/** Of a region's Redis: enforcers, sync daemons, and people. Each has a password of its own. */
export const REDIS_USERS = ['enforcer', 'sync', 'operator'] as const

export type RedisUser = (typeof REDIS_USERS)[number]

/** What connecting takes, and finding the nodes of a cluster. */
const CONNECTING = ['ping', 'info', 'time', 'client|setname', 'cluster|nodes', 'asking']

/** What the scripts that enforcers call do to counters. */
const COUNTING = [
  'evalsha',
  ...['get', 'mget', 'set', 'setrange', 'del', 'expire', 'publish'],
  ...['hmget', 'hset', 'hdel', 'sadd', 'scard'],
]

/** Reading policies, telling that one is alive, hearing what changed. */
const SERVING = [
  ...['hkeys', 'zrangebyscore', 'multi', 'exec', 'subscribe'],
  ...['zadd', 'zrem', 'zcard', 'zremrangebyscore', 'pexpire'],
]

/** Loading scripts, and writing and reading the whole state of a region. */
const LEADING = [
  ...['script|load', 'script|exists'],
  ...['hget', 'hgetall', 'hkeys', 'hlen', 'hscan', 'spop', 'zadd', 'zcard', 'zrange'],
]

/** Keys of every slot group, by the letters that they begin with. */
const { meta, hot, usage, ledger } = groupKeys(0)
const COUNTERS = [meta, hot, usage, counterKey('{')].map(prefixOf)
const OF_ENFORCERS = [refundKey(0, ''), leaseKey(0, '')].map(prefixOf)

/**
 * The users of a region's Redis, as the lines of its ACL file. `hashOf` gives the SHA-256 of a user's password, in hex.
 *
 * Each service may do what its code does and no more: neither can empty the database, list keys, change settings or
 * run a script of its own making; an enforcer can load none at all, and reads policies without being able to write
 * them. `health` may only ask whether the server is there, and nobody is let in without a name.
 */
export function redisUsers(hashOf: (user: RedisUser) => string): string {
  const enforcerKeys = [
    ...[...COUNTERS, ...OF_ENFORCERS].map((prefix) => `~${prefix}*`),
    ...[REGION_KEYS.region, REGION_KEYS.policies, REGION_KEYS.versions].map((key) => `%R~${key}`),
    ...[REGION_KEYS.enforcers, enforcerKey('*')].map((key) => `~${key}`),
  ]
  const syncKeys = [...COUNTERS, ...[ledger, REGION_KEYS.region].map(prefixOf)].map(
    (prefix) => `~${prefix}*`,
  )
  const rules = {
    enforcer: line(enforcerKeys, [...CONNECTING, ...COUNTING, ...SERVING]),
    sync: line(syncKeys, [...CONNECTING, ...COUNTING, ...LEADING]),
    operator: '~* &* +@all',
  }
  const users = REDIS_USERS.map((user) => `user ${user} on #${hashOf(user)} ${rules[user]}`)
  return ['user default off', 'user health on nopass -@all +ping', ...users, ''].join('\n')
}

export function redisPasswordHash(password: string): string {
  return createHash('sha256').update(password).digest('hex')
}

function line(keys: readonly string[], commands: readonly string[]): string {
  const allowed = commands.map((command) => `+${command}`)
  return [...keys, `&${NEWS_CHANNEL}`, '-@all', ...allowed].join(' ')
}

/** What comes before the hash tag, and the brace: every key has one. */
function prefixOf(key: string): string {
  return key.slice(0, key.indexOf('{') + 1)
}
