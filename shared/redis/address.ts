/** Where a region's Redis is: the forms of `REDIS_URL`. */

export interface HostPort {
  readonly host: string
  readonly port: number
}

/** Credentials and transport, the same for every server of an address. */
export interface RedisAccess {
  readonly username?: string
  readonly password?: string
  readonly isTls: boolean
}

export type RedisAddress =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'cluster'; readonly seeds: readonly HostPort[]; readonly access: RedisAccess }
  | {
      readonly kind: 'sentinel'
      readonly sentinels: readonly HostPort[]
      readonly name: string
      readonly access: RedisAccess
    }

const SINGLE = /^(rediss?:\/\/|unix:|\/)/
const MANY = /^redis(s?)\+(cluster|sentinel):\/\/(?:([^@/]*)@)?([^/@]+)(?:\/([^/]+))?$/
const REDIS_PORT = 6379
const SENTINEL_PORT = 26379

/** What a wrong `REDIS_URL` should have been. */
export const REDIS_URL_FORMS =
  "must be a redis:// or rediss:// URL, a socket's path, redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/name"

/**
 * `redis://`, `rediss://` or a socket's path; `redis+cluster://[user:password@]host:port,…` with any of its nodes;
 * `redis+sentinel://[user:password@]host:port,…/name` with the sentinels and the name that they watch. `rediss+…` is
 * the same over TLS. Null where `text` is none of them.
 */
export function parseRedisUrl(text: string): RedisAddress | null {
  if (SINGLE.test(text)) return { kind: 'single', url: text }
  const [, tls, kind, user, hosts = '', name] = MANY.exec(text) ?? []
  if (kind === undefined) return null
  const access = { isTls: tls === 's', ...parseUser(user) }
  const usualPort = kind === 'cluster' ? REDIS_PORT : SENTINEL_PORT
  const all = hosts.split(',').map((one) => parseHostPort(one, usualPort))
  const listed = all.filter((one) => one !== null)
  if (listed.length < all.length) return null
  if (kind === 'cluster') return name === undefined ? { kind, seeds: listed, access } : null
  return name === undefined ? null : { kind: 'sentinel', sentinels: listed, name, access }
}

/** `host:port`, an IPv6 host in brackets or, as Redis writes it, without. Null where it is none. */
export function parseHostPort(text: string, usualPort?: number): HostPort | null {
  const [, bracketed, bare, digits] = /^(?:\[([^\]]+)\]|(.*?))(?::(\d+))?$/.exec(text) ?? []
  const host = bracketed ?? bare ?? ''
  const port = digits === undefined ? usualPort : Number(digits)
  if (host === '' || port === undefined || port < 1 || port > 65_535) return null
  return { host, port }
}

function parseUser(user: string | undefined): Pick<RedisAccess, 'username' | 'password'> {
  if (user === undefined) return {}
  const [name = '', ...rest] = user.split(':')
  return {
    ...(name !== '' && { username: decodeURIComponent(name) }),
    ...(rest.length > 0 && { password: decodeURIComponent(rest.join(':')) }),
  }
}
