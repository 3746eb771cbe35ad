import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import type { FastifyInstance } from 'fastify'

/**
 * Lets a closing server cut connections that never sent a request. Browsers and HTTP clients open such spare ones; Node
 * counts them as busy, so one of them would hold a shutdown up for a minute.
 */
export function cutSpareConnections(app: FastifyInstance): void {
  const spare = new Set<Socket>()
  // Under TLS requests name the inner connection; how long its making may take has a bound of its own.
  const event = app.server instanceof TlsServer ? 'secureConnection' : 'connection'
  app.server.on(event, (socket: Socket) => {
    spare.add(socket)
    socket.once('close', () => spare.delete(socket))
  })
  app.server.on('request', ({ socket }) => spare.delete(socket))
  app.addHook('preClose', async () => {
    for (const socket of spare) socket.destroy()
  })
}
