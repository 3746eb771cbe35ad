import { connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { keySlot } from '../../../shared/redis/key-slot.ts'
import { RedisCluster } from '../../../shared/redis/redis-cluster.ts'

/**
 * A cluster whose nodes get other addresses, as pods do. Its seed is a name that leads to whichever node there is: here a
 * port that passes connections on.
 */

const sockets = new Set<Socket>()
const servers = new Set<Server>()
let cluster: RedisCluster | undefined

afterEach(async () => {
  cluster?.disconnect()
  for (const socket of sockets) socket.destroy()
  await Promise.all([...servers].map((server) => new Promise((resolve) => server.close(resolve))))
  sockets.clear()
  servers.clear()
})

async function listen(serve: (socket: Socket) => void): Promise<{ port: number; server: Server }> {
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  servers.add(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as { port: number }).port, server }
}

interface Node {
  readonly port: number
  stop(): Promise<void>
}

/** Nodes by their place: each has a third of the slots, and answers GET with its port. */
class Nodes {
  readonly #nodes: Node[] = []

  get all(): readonly Node[] {
    return this.#nodes
  }

  async start(place: number): Promise<void> {
    const own = new Set<Socket>()
    const { port, server } = await listen((socket) => {
      own.add(socket)
      socket.on('data', (data) => {
        for (const name of commandsOf(data.toString())) socket.write(this.#reply(name, port))
      })
    })
    this.#nodes[place] = {
      port,
      stop: async () => {
        for (const socket of own) socket.destroy()
        servers.delete(server)
        await new Promise((resolve) => server.close(resolve))
      },
    }
  }

  #reply(name: string, port: number): string {
    if (name === 'GET') return `$${String(port).length}\r\n${port}\r\n`
    if (name === 'HELLO') return '%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n'
    if (name === 'INFO') return '$9\r\nloading:0\r\n'
    if (name !== 'CLUSTER') return '+OK\r\n'
    const ranges = ['0-5460', '5461-10922', '10923-16383']
    const lines = this.#nodes.map((node, place) => {
      const flags = node.port === port ? 'myself,master' : 'master'
      return `n${node.port} 127.0.0.1:${node.port}@1 ${flags} - 0 0 1 connected ${ranges[place]}\n`
    })
    const text = lines.join('')
    return `$${text.length}\r\n${text}\r\n`
  }
}

function commandsOf(text: string): readonly string[] {
  const names: string[] = []
  const lines = text.split('\r\n')
  for (const [index, line] of lines.entries()) {
    if (line.startsWith('*')) names.push(String(lines[index + 2]).toUpperCase())
  }
  return names
}

/** A key of the slots of each node. */
const KEYS = [0, 1, 2].map((place) => {
  for (let id = 0; ; id++)
    if (Math.floor((3 * keySlot(`k${id}`)) / 16_384) === place) return `k${id}`
})

describe('a cluster whose nodes are replaced', () => {
  async function started(): Promise<Nodes> {
    const nodes = new Nodes()
    for (const place of KEYS.keys()) await nodes.start(place)
    // A name leads to some node that is there.
    const seed = await listen((socket) => {
      const port = nodes.all[0]?.port ?? 0
      const passed = connect(port, '127.0.0.1')
      sockets.add(passed)
      passed.on('error', () => socket.destroy())
      passed.on('close', () => socket.destroy())
      socket.on('close', () => passed.destroy())
      socket.pipe(passed).pipe(socket)
    })
    cluster = new RedisCluster({
      name: 'test',
      onError: () => {},
      access: { isTls: false },
      seeds: [{ host: '127.0.0.1', port: seed.port }],
      connection: 'lasting',
    })
    await cluster.connect()
    await found(nodes)
    return nodes
  }

  const get = async (key: string): Promise<number> =>
    Number(await cluster?.follow(key, (node) => node.get(key)))

  /** Waits until each key is answered by the node that has it now. */
  async function found(nodes: Nodes): Promise<void> {
    const ports = nodes.all.map(({ port }) => port)
    await vi.waitFor(
      async () => expect((await Promise.all(KEYS.map(get))).sort()).toEqual([...ports].sort()),
      { timeout: 5_000, interval: 20 },
    )
  }

  it('is found again when they go one after the other, and when all go at once (B097)', async () => {
    const nodes = await started()
    for (const place of KEYS.keys()) {
      await nodes.all[place]?.stop()
      await nodes.start(place)
      await found(nodes)
    }
    await Promise.all(nodes.all.map((node) => node.stop()))
    // Nobody waits for a cluster that is gone.
    const failedAtMs = performance.now()
    const failed = await Promise.allSettled(KEYS.map(get))
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(performance.now() - failedAtMs).toBeLessThan(2_500)
    for (const place of KEYS.keys()) await nodes.start(place)
    await found(nodes)
  })
})
