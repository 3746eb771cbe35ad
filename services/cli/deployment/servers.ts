/** The servers of a topology, from its configuration files. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ChildFailure } from '../plane/child.ts'
import { retryOnTakenPort } from '../plane/ports.ts'
import { type Launch, launchChild, type NatsServer, type RedisServer } from '../plane/servers.ts'
import { allOrFirstFailure } from '../plane/together.ts'
import { localNatsConfig, type NatsPorts } from './nats-config.ts'
import type { Topology } from './topology-file.ts'

/** Starts a region's Redis; what it keeps is in a folder of its own. */
export function startRedis(
  launch: Launch,
  options: {
    readonly program: string
    readonly config: string
    readonly region: string
    readonly keys: string
  },
): Promise<RedisServer> {
  const { program, config, region, keys } = options
  return retryOnTakenPort(async () => {
    const port = await launch.ports.take(6379)
    const dir = join(launch.folder, `redis-${region}`)
    await mkdir(dir, { recursive: true })
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir]
    const { child } = await launchChild(launch, {
      name: `redis of ${region}`,
      command: program,
      args: [config, ...place, '--aclfile', join(keys, `redis-${region}.acl`)],
      env: launch.env,
      cwd: launch.folder,
      ready: /Ready to accept connections/,
    })
    return { child, port, url: `redis://127.0.0.1:${port}` }
  })
}

/** Starts the NATS of every region, joined to one another; all again if one of their ports was taken meanwhile. */
export function startNatsMesh(
  launch: Launch,
  program: string,
  topology: Topology,
): Promise<ReadonlyMap<string, NatsServer>> {
  return retryOnTakenPort(async () => {
    const ports = new Map<string, NatsPorts>()
    for (const { name } of topology.regions) {
      const [client, gateway, monitor] = await Promise.all(
        [4222, 7222, 8222].map((usual) => launch.ports.take(usual)),
      )
      ports.set(name, { client: client ?? 0, gateway: gateway ?? 0, monitor: monitor ?? 0 })
    }
    const started: NatsServer[] = []
    const start = async (region: string): Promise<[string, NatsServer]> => {
      const server = await startNats(launch, program, { topology, region, ports })
      started.push(server)
      return [region, server]
    }
    try {
      return new Map(await allOrFirstFailure([...ports.keys()].map(start)))
    } catch (err) {
      if (err instanceof ChildFailure) await Promise.all(started.map(({ child }) => child.stop()))
      throw err
    }
  })
}

async function startNats(
  launch: Launch,
  program: string,
  options: {
    readonly topology: Topology
    readonly region: string
    readonly ports: ReadonlyMap<string, NatsPorts>
  },
): Promise<NatsServer> {
  const { topology, region, ports } = options
  const file = join(topology.nats, `${region}.conf`)
  const keys = join(launch.folder, 'keys')
  const config = localNatsConfig(await readFile(file, 'utf8'), { region, ports, file, keys })
  // Beside the folder of keys, which it includes from.
  const path = join(launch.folder, `nats-${region}.conf`)
  await writeFile(path, config)
  const { child } = await launchChild(launch, {
    name: `nats of ${region}`,
    command: program,
    args: ['-c', path],
    env: launch.env,
    cwd: launch.folder,
    ready: /Server is ready/,
  })
  const { client = 0, gateway = 0 } = ports.get(region) ?? {}
  return { child, port: client, gatewayPort: gateway, url: `nats://127.0.0.1:${client}` }
}
