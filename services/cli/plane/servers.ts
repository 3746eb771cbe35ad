import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Child, type ChildOptions } from './child.ts'
import type { Guard } from './guard-client.ts'
import type { Links } from './links.ts'
import { type Ports, retryOnTakenPort } from './ports.ts'

/** What every starter of a child needs. */
export interface Launch {
  readonly guard: Guard
  readonly ports: Ports
  /** Folder for configuration and data; removed when the plane stops. */
  readonly folder: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Knows the child from before its start, so that a plane that fails to start can end it. */
  readonly adopt: (child: Child) => void
}

export interface RedisServer {
  readonly child: Child
  readonly port: number
  readonly url: string
}

export interface NatsServer {
  readonly child: Child
  readonly port: number
  readonly gatewayPort: number
  readonly url: string
}

/** Makes a child known to the plane and starts it; a start that fails leaves no process. */
export async function launchChild(
  launch: Launch,
  options: ChildOptions,
): Promise<{ child: Child; readyValue: string }> {
  const child = new Child(options, launch.guard)
  launch.adopt(child)
  return { child, readyValue: await child.start() }
}

/** A Redis of a region: loopback only, nothing on disk, and it refuses writes rather than evict a counter. */
export function startRedis(launch: Launch, path: string, region: string): Promise<RedisServer> {
  return retryOnTakenPort(async () => {
    const port = await launch.ports.take(6379)
    const settings = {
      port: String(port),
      bind: '127.0.0.1',
      save: '',
      appendonly: 'no',
      'maxmemory-policy': 'noeviction',
      dir: launch.folder,
    }
    const { child } = await launchChild(launch, {
      name: `redis of ${region}`,
      command: path,
      args: Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
      env: launch.env,
      cwd: launch.folder,
      ready: /Ready to accept connections/,
    })
    return { child, port, url: `redis://127.0.0.1:${port}` }
  })
}

/** The NATS server of a region, joined to those of the other regions through `links`. */
export function startNats(
  launch: Launch,
  path: string,
  region: string,
  peers: readonly string[],
  links: Links,
): Promise<NatsServer> {
  return retryOnTakenPort(async () => {
    const port = await launch.ports.take(4222)
    const gatewayPort = await launch.ports.take(7222)
    const remotes = peers.map(
      (peer) => `{ name: "${peer}", url: "nats://127.0.0.1:${links.port(peer)}" }`,
    )
    const config = [
      `server_name: "${region}"`,
      `listen: "127.0.0.1:${port}"`,
      `gateway {`,
      `  name: "${region}"`,
      `  listen: "127.0.0.1:${gatewayPort}"`,
      `  advertise: "127.0.0.1:${links.port(region)}"`,
      `  gateways: [ ${remotes.join(', ')} ]`,
      `}`,
    ]
    const file = join(launch.folder, `nats-${region}.conf`)
    await writeFile(file, `${config.join('\n')}\n`)
    links.setTarget(region, gatewayPort)
    const { child } = await launchChild(launch, {
      name: `nats of ${region}`,
      command: path,
      args: ['-c', file],
      env: launch.env,
      cwd: launch.folder,
      ready: /Server is ready/,
    })
    return { child, port, gatewayPort, url: `nats://127.0.0.1:${port}` }
  })
}
