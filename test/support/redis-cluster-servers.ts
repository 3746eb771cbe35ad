import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { vi } from 'vitest'
import { freePorts } from './free-ports.ts'
import { USER_ARGUMENTS } from './redis-users.ts'
import { type ServerProcess, startServer } from './server-process.ts'

/** Nodes take one another for gone after this. */
const NODE_TIMEOUT_MS = 1_500
const SLOTS = 16_384
const HOST = '127.0.0.1'

export interface ClusterMember {
  readonly port: number
  readonly id: string
  readonly redis: Redis
  readonly server: ServerProcess
}

/** A real Redis Cluster: masters with equal ranges of the slots, each with one replica. */
export interface RedisClusterServers {
  readonly url: string
  readonly masters: readonly ClusterMember[]
  readonly replicas: readonly ClusterMember[]
  /** Starts a further master without slots. */
  addMaster(): Promise<ClusterMember>
  /** Moves one slot from one master to another, its keys one after the other, as `redis-cli --cluster reshard` does. */
  moveSlot(slot: number, from: ClusterMember, to: ClusterMember): Promise<void>
  stop(): Promise<void>
}

export async function startRedisCluster(size: number): Promise<RedisClusterServers> {
  const dirs: string[] = []
  const members: ClusterMember[] = []
  const start = async (): Promise<ClusterMember> => {
    const [port = 0, busPort = 0] = await freePorts(2)
    const dir = await mkdtemp(join(tmpdir(), 'quotaplane-cluster-'))
    dirs.push(dir)
    const server = await startServer(
      'redis-server',
      [
        ...['--port', String(port), '--cluster-port', String(busPort), '--bind', HOST],
        ...['--cluster-enabled', 'yes', '--cluster-node-timeout', String(NODE_TIMEOUT_MS)],
        ...USER_ARGUMENTS,
        ...['--dir', dir, '--save', '', '--appendonly', 'no', '--repl-diskless-sync-delay', '0'],
      ],
      'eady to accept connections',
    )
    const redis = new Redis({ host: HOST, port, retryStrategy: () => null })
    redis.on('error', () => {})
    const id = String(await redis.cluster('MYID'))
    const member = { port, id, redis, server }
    const [first] = members
    if (first !== undefined) await meet(first, port, busPort)
    members.push(member)
    return member
  }
  const all: ClusterMember[] = []
  for (let count = 0; count < 2 * size; count++) all.push(await start())
  const masters = all.slice(0, size)
  const replicas = all.slice(size)
  await assign(masters)
  await knownToAll(members)
  for (const [index, replica] of replicas.entries()) {
    await replica.redis.call('CLUSTER', 'REPLICATE', masters[index]?.id ?? '')
  }
  await knownAsReplicas(members, replicas)
  await healthy(members)
  return {
    url: `redis+cluster://${masters.map(({ port }) => `${HOST}:${port}`).join(',')}`,
    masters,
    replicas,
    async addMaster() {
      const added = await start()
      await knownToAll(members)
      await healthy([added])
      return added
    },
    moveSlot,
    async stop() {
      for (const { redis } of members) redis.disconnect()
      await Promise.all(members.map(({ server }) => server.stop('SIGKILL')))
      await Promise.all(dirs.map((dir) => rm(dir, { recursive: true, force: true })))
    },
  }
}

async function meet({ redis }: ClusterMember, port: number, busPort: number): Promise<void> {
  await redis.call('CLUSTER', 'MEET', HOST, port, busPort)
}

async function assign(masters: readonly ClusterMember[]): Promise<void> {
  const part = Math.ceil(SLOTS / masters.length)
  for (const [index, { redis }] of masters.entries()) {
    const last = Math.min((index + 1) * part, SLOTS) - 1
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', index * part, last)
  }
}

async function knownToAll(members: readonly ClusterMember[]): Promise<void> {
  await waitFor(async () => {
    for (const { redis } of members) {
      const nodes = String(await redis.cluster('NODES'))
      if (nodes.includes('handshake')) throw new Error('nodes are meeting')
      for (const { id } of members) if (!nodes.includes(id)) throw new Error('a node is unknown')
    }
  })
}

/** A node that has not heard of it yet tells its clients of another master, which a replica refuses to be. */
async function knownAsReplicas(
  members: readonly ClusterMember[],
  replicas: readonly ClusterMember[],
): Promise<void> {
  await waitFor(async () => {
    for (const { redis } of members) {
      const lines = String(await redis.cluster('NODES')).split('\n')
      for (const { id } of replicas) {
        const isTold = lines.some((line) => line.startsWith(id) && line.includes('slave'))
        if (!isTold) throw new Error('a replica is taken for a master')
      }
    }
  })
}

async function healthy(members: readonly ClusterMember[]): Promise<void> {
  await waitFor(async () => {
    for (const { redis } of members) {
      if (!String(await redis.cluster('INFO')).includes('cluster_state:ok')) throw new Error('down')
      const replication = await redis.info('replication')
      if (replication.includes('role:slave') && !replication.includes('master_link_status:up')) {
        throw new Error('a replica has not synchronised')
      }
    }
  })
}

function waitFor(check: () => Promise<void>): Promise<void> {
  return vi.waitFor(check, { timeout: 30_000, interval: 50 })
}

async function moveSlot(slot: number, from: ClusterMember, to: ClusterMember): Promise<void> {
  await to.redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
  await from.redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
  for (;;) {
    const keys = (await from.redis.call('CLUSTER', 'GETKEYSINSLOT', slot, 10)) as string[]
    if (keys.length === 0) break
    for (const key of keys) await from.redis.call('MIGRATE', HOST, to.port, key, 0, 5_000)
  }
  await to.redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
  await from.redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
}
