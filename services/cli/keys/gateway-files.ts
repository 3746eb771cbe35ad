/** The files of the gateways' certificates, beside the other keys of a plane. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RegionId } from '../../../shared/core/policy.ts'
import type { Write } from './all-or-none.ts'
import type { Pair } from './gateway-certificates.ts'

/** Names and addresses by which the other regions know each region's NATS, beside `<region>-nats`. */
export type GatewayHosts = ReadonlyMap<RegionId, readonly string[]>

/** Of the authority. Its certificate is for every region's server; its key stays where keys are made. */
export const AUTHORITY_FILES = { cert: 'gateways.crt', key: 'gateways.key' } as const

const SECRET_MODE = 0o600

export function gatewayFiles(region: RegionId): { readonly cert: string; readonly key: string } {
  return { cert: `gateway-${region}.crt`, key: `gateway-${region}.key` }
}

/** Writes a new authority. Loaded only here, as is all that makes certificates: other commands have no use for it. */
export async function writeAuthority(write: Write): Promise<Pair> {
  const { createAuthority } = await import('./gateway-certificates.ts')
  const authority = await createAuthority()
  await write(AUTHORITY_FILES.cert, authority.cert)
  await write(AUTHORITY_FILES.key, authority.key, SECRET_MODE)
  return authority
}

/** The authority that was written into `folder`. */
export async function readAuthority(folder: string): Promise<Pair> {
  const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8')
  return { cert: await read(AUTHORITY_FILES.cert), key: await read(AUTHORITY_FILES.key) }
}

/** Writes the certificate of a region's server. `<region>-nats` is its name in the compose file. */
export async function writeGateway(
  region: RegionId,
  options: { readonly authority: Pair; readonly hosts: GatewayHosts; readonly write: Write },
): Promise<void> {
  const { authority, hosts, write } = options
  const { createCertificate } = await import('./gateway-certificates.ts')
  const names = [`${region}-nats`, ...(hosts.get(region) ?? [])]
  const pair = await createCertificate(authority, region, names)
  const files = gatewayFiles(region)
  await write(files.cert, pair.cert)
  await write(files.key, pair.key, SECRET_MODE)
}
