import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { RedisCluster } from '../../../shared/redis/redis-cluster.ts'

let server: Server | undefined
let cluster: RedisCluster | undefined
const sockets = new Set<Socket>()

afterEach(async () => {
  cluster?.disconnect()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server?.close(resolve) ?? resolve(null))
})

/** A node that has all slots and sends every command on to itself, as behind a translation of addresses. */
async function startLoopingNode(): Promise<{ port: number; commands: string[] }> {
  const commands: string[] = []
  const node = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (data) => {
      for (const [name] of parse(data.toString())) socket.write(reply(String(name).toUpperCase()))
    })
  })
  server = node
  await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve))
  const { port } = node.address() as { port: number }
  const reply = (name: string): string => {
    commands.push(name)
    const nodes = `a1 127.0.0.1:${port}@1 myself,master - 0 0 1 connected 0-16383\n`
    if (name === 'CLUSTER') return `$${nodes.length}\r\n${nodes}\r\n`
    if (name === 'HELLO') return '%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n'
    if (name === 'GET') return `-MOVED 42 127.0.0.1:${port}\r\n`
    return name === 'INFO' ? '$9\r\nloading:0\r\n' : '+OK\r\n'
  }
  return { port, commands }
}

function parse(text: string): string[][] {
  const commands: string[][] = []
  for (const line of text.split('\r\n')) {
    if (line.startsWith('*')) commands.push([])
    else if (line !== '' && !line.startsWith('$')) commands.at(-1)?.push(line)
  }
  return commands
}

it('is not sent round for ever by nodes that name one another, nor looks at them each time (B092)', async () => {
  const { port, commands } = await startLoopingNode()
  cluster = new RedisCluster({
    name: 'test',
    onError: () => {},
    access: { isTls: false },
    seeds: [{ host: '127.0.0.1', port }],
    connection: 'lasting',
  })
  const calls = Array.from({ length: 20 }, () => cluster?.follow('key', (node) => node.get('key')))
  const results = await Promise.allSettled(calls)
  const reasons = results.map((one) => (one.status === 'rejected' ? String(one.reason) : 'none'))
  expect(new Set(reasons)).toEqual(new Set([`ReplyError: MOVED 42 127.0.0.1:${port}`]))
  const count = (name: string): number => commands.filter((one) => one === name).length
  expect(count('GET')).toBe(20 * 6)
  expect(count('CLUSTER')).toBeLessThan(10)
})
