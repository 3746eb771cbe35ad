import { CliError } from '../errors.ts'

/** Where one region's NATS is on this machine. */
export interface NatsPorts {
  readonly client: number
  readonly gateway: number
  readonly monitor: number
}

/**
 * The configuration of a region's NATS with the addresses and the keys of this machine in place of those of containers, and nothing
 * else changed. Throws `CliError` where an address that has to be replaced is not in it: it would start, and be alone.
 */
export function localNatsConfig(
  text: string,
  options: {
    readonly region: string
    readonly ports: ReadonlyMap<string, NatsPorts>
    readonly file: string
    /** The folder with the keys. */
    readonly keys: string
  },
): string {
  const { region, ports, file, keys } = options
  const own = ports.get(region)
  if (own === undefined) throw new Error(`${region} has ports`)
  const replaced = new Map([
    ['listen: 0.0.0.0:4222', `listen: 127.0.0.1:${own.client}`],
    ['http: 127.0.0.1:8222', `http: 127.0.0.1:${own.monitor}`],
    ['listen: 0.0.0.0:7222', `listen: 127.0.0.1:${own.gateway}`],
  ])
  for (const [peer, { gateway }] of ports) {
    replaced.set(`"nats://${peer}-nats:7222"`, `"nats://127.0.0.1:${gateway}"`)
  }
  let local = text
  for (const [address, here] of replaced) {
    if (!local.includes(address)) {
      throw new CliError(`${file} has no "${address}", so ${region} could not be run from it here`)
    }
    local = local.replaceAll(address, here)
  }
  local = local.replaceAll('"/etc/nats/keys/', `"${keys}/`)
  const left = /nats:\/\/(?!127\.0\.0\.1)[^"\s]+/.exec(local)?.[0]
  if (left !== undefined) throw new CliError(`${file} names ${left}, which is not in the topology`)
  return local
}
