import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from './free-ports.ts'
import { type ServerProcess, startServer } from './server-process.ts'

export interface NatsServer {
  /** URL for clients; the same after a restart. */
  readonly url: string
  readonly port: number
  log(): string
  /** Freezes the server: connections stay open and nothing is carried. */
  pause(): void
  resume(): void
  halt(): Promise<void>
  start(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

/** One-way gateway link: messages from clients of `from` to clients of `to` travel over it. */
export interface GatewayLink {
  readonly from: string
  readonly to: string
  /** Where the gateway of `to` listens. */
  readonly port: number
}

export interface NatsMesh {
  readonly servers: ReadonlyMap<string, NatsServer>
  stop(): Promise<void>
}

/**
 * An address that no server listens on (the port is reserved), told to the other gateways as one's own.
 *
 * Gateways tell each other where they listen and use what they hear beside what they were configured with. A
 * mesh whose links run through proxies would by that reconnect around a cut link.
 */
const NOWHERE = '127.0.0.1:1'

/** Starts one NATS server without peers; `extra` is more of its configuration. */
export async function startNats(extra = ''): Promise<NatsServer> {
  const [port = 0] = await freePorts(1)
  return launchNats(port, `port: ${port}\n${extra}`)
}

/**
 * Starts a NATS server per region, joined to one another as a gateway mesh.
 *
 * `urlOf` may give a proxy's URL for a link; it may be called before the target listens. A link carries one
 * direction only, so a test can cut one way.
 */
export async function startNatsMesh(
  regions: readonly string[],
  urlOf?: (link: GatewayLink) => Promise<string> | string,
): Promise<NatsMesh> {
  const ports = await freePorts(2 * regions.length)
  const gateways = new Map(regions.map((region, i) => [region, ports[2 * i + 1] ?? 0]))
  const start = async (region: string, i: number): Promise<[string, NatsServer]> => {
    const remotes: string[] = []
    for (const [to, port] of gateways) {
      if (to === region) continue
      const url = (await urlOf?.({ from: region, to, port })) ?? `nats://127.0.0.1:${port}`
      remotes.push(`{ name: ${to}, url: "${url}" }`)
    }
    const port = ports[2 * i] ?? 0
    const config = [
      `server_name: ${region}-1`,
      `port: ${port}`,
      `gateway {`,
      `  name: ${region}, listen: "127.0.0.1:${gateways.get(region)}"`,
      ...(urlOf === undefined ? [] : [`  advertise: "${NOWHERE}"`]),
      `  gateways: [ ${remotes.join(', ')} ]`,
      `}`,
    ]
    return [region, await launchNats(port, config.join('\n'))]
  }
  const servers = new Map(await Promise.all(regions.map(start)))
  return {
    servers,
    async stop() {
      await Promise.all([...servers.values()].map((server) => server.stop()))
    },
  }
}

async function launchNats(port: number, config: string): Promise<NatsServer> {
  const folder = await mkdtemp(join(tmpdir(), 'quota-nats-'))
  const file = join(folder, 'nats.conf')
  await writeFile(file, `host: 127.0.0.1\n${config}\n`)
  const launch = (): Promise<ServerProcess> =>
    startServer('nats-server', ['-c', file], 'Server is ready')
  let server = await launch()
  const halt = (): Promise<void> => server.stop('SIGTERM')
  const start = async (): Promise<void> => {
    server = await launch()
  }
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    log: () => server.log(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    halt,
    start,
    async restart() {
      await halt()
      await start()
    },
    async stop() {
      await halt()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
