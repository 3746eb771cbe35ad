import { AdminClient } from './admin-client.ts'
import { CliError, EXIT } from './errors.ts'
import type { Io } from './io.ts'
import { findLocalPlane } from './state-file.ts'

/** Where admin listens when nothing says otherwise. */
const DEFAULT_ADMIN_URL = 'http://127.0.0.1:7070'
const DEFAULT_ENFORCER_URL = 'http://127.0.0.1:8080'

/** Options that say which plane a command talks to. */
export interface PlaneFlags {
  readonly adminUrl?: string | undefined
  readonly token?: string | undefined
}

/**
 * A client of the plane that a command means: its flags, else QUOTAPLANE_URL and QUOTAPLANE_TOKEN, else the
 * local plane that `quotaplane up` left word of.
 *
 * The local plane's token is sent to the local plane only.
 */
export function adminOf(flags: PlaneFlags, io: Io): AdminClient {
  const given = flags.adminUrl ?? io.env['QUOTAPLANE_URL']
  const local = given === undefined || given === '' ? findLocalPlane(io.env) : null
  const url = httpUrl(given || local?.url || DEFAULT_ADMIN_URL, '--admin-url')
  const token = flags.token ?? (io.env['QUOTAPLANE_TOKEN'] || local?.token) ?? null
  return new AdminClient({ url, token, signal: io.signal })
}

/** The enforcer that a check goes to: the flag, else QUOTAPLANE_ENFORCER_URL, else one of the local plane. */
export function enforcerUrlOf(
  flags: { readonly enforcerUrl?: string | undefined; readonly region?: string | undefined },
  io: Io,
): string {
  const given = flags.enforcerUrl ?? io.env['QUOTAPLANE_ENFORCER_URL']
  if (given !== undefined && given !== '') return httpUrl(given, '--enforcer-url')
  const local = findLocalPlane(io.env)
  if (flags.region === undefined) return local?.regions[0]?.enforcerUrl ?? DEFAULT_ENFORCER_URL
  const found = local?.regions.find(({ region }) => region === flags.region)
  if (found !== undefined) return found.enforcerUrl
  const known = local?.regions.map(({ region }) => region).join(', ')
  const hint = known === undefined ? 'no local plane runs: give --enforcer-url' : `it has ${known}`
  throw new CliError(`the local plane has no region ${flags.region}: ${hint}`, EXIT.usage)
}

function httpUrl(text: string, flag: string): string {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new CliError(`${flag} must be an http:// or https:// URL, not "${text}"`, EXIT.usage)
  }
  return text.replace(/\/+$/, '')
}
