import { AdminClient } from './admin-client.ts'
import { findContext, tokenOf } from './contexts.ts'
import { CliError, EXIT } from './errors.ts'
import { type Io, say } from './io.ts'
import { findLocalPlane, findLocalPlanes } from './state-file.ts'

/** Where admin listens when nothing says otherwise. */
const DEFAULT_ADMIN_URL = 'http://127.0.0.1:7070'
const DEFAULT_ENFORCER_URL = 'http://127.0.0.1:8080'

/** Options that say which plane a command talks to. */
export interface PlaneFlags {
  readonly context?: string | undefined
  readonly adminUrl?: string | undefined
  readonly token?: string | undefined
  /** Why, of a command that changes something. */
  readonly reason?: string | undefined
}

/**
 * A client of the plane that a command means: its flags, else QUOTAPLANE_URL and QUOTAPLANE_TOKEN, else the context
 * (--context, QUOTAPLANE_CONTEXT, or the current one), else the local plane that `quotaplane up` left word of. Where
 * several run here, says which of them it is, since that of another terminal may have been started meanwhile.
 *
 * A token that belongs to one plane is never sent to another; that of a local plane goes to its own URL alone.
 */
export function adminOf(flags: PlaneFlags, io: Io): AdminClient {
  const given = flags.adminUrl ?? io.env['QUOTAPLANE_URL']
  const known = given === undefined || given === '' ? knownPlane(flags.context, io) : null
  const url = httpUrl(given || known?.adminUrl || DEFAULT_ADMIN_URL, '--admin-url')
  const own = known?.token ?? findLocalPlanes(io.env).find((local) => local.url === url)?.token
  const token = flags.token ?? (io.env['QUOTAPLANE_TOKEN'] || own) ?? null
  return new AdminClient({ url, token, signal: io.signal, reason: flags.reason })
}

/** The plane of a context, or else the local one; null when there is neither. */
function knownPlane(
  name: string | undefined,
  io: Io,
): { readonly adminUrl: string; readonly token: string | null } | null {
  const context = findContext(io.env, contextName(name, io))
  if (context !== null) return { adminUrl: context.adminUrl, token: tokenOf(context) }
  const [local, ...others] = findLocalPlanes(io.env)
  if (local === undefined) return null
  if (others.length > 0) {
    const rest = others.map(({ url }) => `--admin-url ${url}`).join(' or ')
    say(
      io.err,
      `several planes run here; this is ${local.url}, started last: ${rest} means another`,
    )
  }
  return { adminUrl: local.url, token: local.token }
}

function contextName(name: string | undefined, io: Io): string | undefined {
  return name ?? (io.env['QUOTAPLANE_CONTEXT'] || undefined)
}

/** The enforcer that a check goes to: the flag, else QUOTAPLANE_ENFORCER_URL, the context's, one of the local plane. */
export function enforcerUrlOf(
  flags: { readonly enforcerUrl?: string | undefined; readonly region?: string | undefined },
  io: Io,
): string {
  const given = flags.enforcerUrl ?? io.env['QUOTAPLANE_ENFORCER_URL']
  if (given !== undefined && given !== '') return httpUrl(given, '--enforcer-url')
  const context =
    flags.region === undefined ? findContext(io.env, contextName(undefined, io)) : null
  if (context?.enforcerUrl !== undefined) return context.enforcerUrl
  const local = findLocalPlane(io.env)
  if (flags.region === undefined) return local?.regions[0]?.enforcerUrl ?? DEFAULT_ENFORCER_URL
  const found = local?.regions.find(({ region }) => region === flags.region)
  if (found !== undefined) return found.enforcerUrl
  const known = local?.regions.map(({ region }) => region).join(', ')
  const hint = known === undefined ? 'no local plane runs: give --enforcer-url' : `it has ${known}`
  throw new CliError(`the local plane has no region ${flags.region}: ${hint}`, EXIT.usage)
}

/**
 * The debug token of the enforcer at `url`: the flag, else QUOTAPLANE_DEBUG_TOKEN, else that of the local plane, which
 * is sent to no enforcer but its own.
 */
export function debugTokenOf(
  flags: { readonly debugToken?: string | undefined },
  url: string,
  io: Io,
): string {
  const given = flags.debugToken ?? io.env['QUOTAPLANE_DEBUG_TOKEN']
  if (given !== undefined && given !== '') return given
  const local = findLocalPlane(io.env)
  const region = local?.regions.find(({ enforcerUrl }) => enforcerUrl === url)
  if (local !== null && region !== undefined) return region.debugToken ?? local.token
  throw new CliError('give --debug-token or set QUOTAPLANE_DEBUG_TOKEN', EXIT.usage)
}

/**
 * The header field by which an enforcer knows a caller, from the flag or QUOTAPLANE_ENFORCER_TOKEN; none without.
 *
 * The token for admin is never sent: it may do more than ask for checks.
 */
export function callerFieldOf(
  flags: { readonly enforcerToken?: string | undefined },
  io: Io,
): { readonly authorization?: string } {
  const token = flags.enforcerToken ?? io.env['QUOTAPLANE_ENFORCER_TOKEN'] ?? ''
  if (token === '') return {}
  if (/^[\x21-\x7e]+$/.test(token)) return { authorization: `Bearer ${token}` }
  throw new CliError('--enforcer-token must have visible ASCII characters alone', EXIT.usage)
}

/** An enforcer of each region of the local plane. */
export function localEnforcerUrls(io: Io): readonly string[] {
  const local = findLocalPlane(io.env)
  if (local !== null) return local.regions.map(({ enforcerUrl }) => enforcerUrl)
  const message = 'no local plane runs, so its regions are not known: give --enforcer-url'
  throw new CliError(message, EXIT.usage)
}

function httpUrl(text: string, flag: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new CliError(`${flag} must be an http:// or https:// URL, not "${text}"`, EXIT.usage)
  }
  return text.replace(/\/+$/, '')
}
