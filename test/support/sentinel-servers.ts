import { rm, writeFile } from 'node:fs/promises'
import { Redis } from 'ioredis'
import { vi } from 'vitest'
import { freePorts } from './free-ports.ts'
import { type RedisServer, startRedisServer } from './redis-server.ts'
import { startServer } from './server-process.ts'

/** A real Redis with a replica, and a real sentinel that watches both. */
export interface SentinelServers {
  readonly url: string
  readonly first: RedisServer
  readonly second: RedisServer
  /** Has the sentinel make the other server the master; resolves once it has agreed to. */
  failOver(): Promise<void>
  stop(): Promise<void>
}

export async function startSentinel(): Promise<SentinelServers> {
  const [one = 0, two = 0, port = 0] = await freePorts(3)
  const first = await startRedisServer({ port: one })
  const second = await startRedisServer({
    port: two,
    args: ['--replicaof', '127.0.0.1', String(one), '--repl-diskless-sync-delay', '0'],
  })
  const config = `${first.url}.sentinel.conf`
  await writeFile(
    config,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `sentinel monitor region 127.0.0.1 ${one} 1`,
      'sentinel down-after-milliseconds region 1000',
      'sentinel failover-timeout region 5000',
    ].join('\n'),
  )
  const sentinel = await startServer('redis-server', [config, '--sentinel'], '+monitor master')
  const watcher = new Redis({ port, host: '127.0.0.1', retryStrategy: () => null })
  await vi.waitFor(async () => {
    const replicas = JSON.stringify(await watcher.call('SENTINEL', 'REPLICAS', 'region'))
    if (!replicas.includes(`"${two}"`) || !replicas.includes('"master-link-status","ok"')) {
      throw new Error('the replica has not synchronised')
    }
  }, 30_000)
  return {
    url: `redis+sentinel://127.0.0.1:${port}/region`,
    first,
    second,
    async failOver() {
      await watcher.call('SENTINEL', 'FAILOVER', 'region')
    },
    async stop() {
      watcher.disconnect()
      await sentinel.stop()
      await rm(config, { force: true })
      await Promise.all([first.stop(), second.stop()])
    },
  }
}
