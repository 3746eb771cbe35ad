import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ServerProcess, startServer } from './server-process.ts'

/** A redis-server of one test file: a unix socket in a folder of its own, nothing saved unless asked for. */
export interface RedisServer {
  /** What `createRedis` takes as `url`. */
  readonly url: string
  log(): string
  pause(): void
  resume(): void
  /** Stops and starts again on the same socket; with `keepData` the data set survives, as from an RDB file. */
  restart(options?: { readonly keepData?: boolean }): Promise<void>
  /** Ends the process at once, as `kill -9` does; `restart` brings it back empty. */
  kill(): Promise<void>
  stop(): Promise<void>
}

export interface RedisServerOptions {
  /** Listens on this TCP port of 127.0.0.1 as well. */
  readonly port?: number
  readonly args?: readonly string[]
  /** A configuration file; what this server must have of its own (folder, socket, no TCP) is put over it. */
  readonly config?: string
}

export async function startRedisServer(options: RedisServerOptions = {}): Promise<RedisServer> {
  const dir = await mkdtemp(join(tmpdir(), 'quotaplane-redis-'))
  const socket = join(dir, 'redis.sock')
  const launch = (): Promise<ServerProcess> =>
    startServer(
      'redis-server',
      [
        ...(options.config === undefined ? [] : [options.config]),
        ...['--port', String(options.port ?? 0), '--bind', '127.0.0.1'],
        ...['--unixsocket', socket, '--dir', dir],
        ...(options.config === undefined ? ['--save', '', '--appendonly', 'no'] : []),
        ...(options.args ?? []),
      ],
      'eady to accept connections',
    )
  let server = await launch()
  return {
    url: socket,
    log: () => server.log(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    async restart({ keepData = false } = {}) {
      // Redis saves on SIGTERM only when save points are set, so keeping data is asked for explicitly.
      if (keepData) await saveData(socket)
      else await removeData(dir)
      await server.stop(keepData ? 'SIGKILL' : 'SIGTERM')
      server = await launch()
    },
    kill: () => server.stop('SIGKILL'),
    async stop() {
      await server.stop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function saveData(socket: string): Promise<void> {
  const { Redis } = await import('ioredis')
  const redis = new Redis(socket)
  try {
    await redis.save()
  } finally {
    redis.disconnect()
  }
}

async function removeData(dir: string): Promise<void> {
  const files = (await readdir(dir)).filter((file) => file.endsWith('.rdb'))
  await Promise.all(files.map((file) => rm(join(dir, file))))
}
