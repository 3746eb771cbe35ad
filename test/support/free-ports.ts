import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/**
 * Ports of the loopback interface that nothing listened on a moment ago.
 *
 * All are held at once while they are chosen, so one call never gives the same port twice. Use only where a
 * server cannot bind port 0 itself.
 */
export async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await once(server, 'listening')
      return server
    }),
  )
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}
