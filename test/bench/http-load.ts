/** Checks over HTTP on raw sockets, so that the load costs less than what it measures. */
import { connect, type Socket } from 'node:net'

const TENANTS = 1_000
const CONNECTIONS = 64
const TICK_MS = 1

const REQUESTS = Array.from({ length: TENANTS }, (_, id) => requestFor(`tenant-${id}`))

/** Requests a second, one under way on each connection. */
export async function requestsPerSecond(port: number, roundMs: number): Promise<number> {
  let answered = 0
  let sent = 0
  const sockets = await openAll(port, (socket) => {
    answered++
    send(socket)
  })
  const send = (socket: Socket): void => void socket.write(REQUESTS[sent++ % TENANTS] ?? '')
  for (const socket of sockets) send(socket)
  await pass(roundMs / 3)
  const before = answered
  const startedMs = performance.now()
  await pass(roundMs)
  const rate = ((answered - before) * 1_000) / (performance.now() - startedMs)
  for (const socket of sockets) socket.destroy()
  return rate
}

/**
 * The 99th percentile of the time to an answer, ms, where `perSecond` requests come whatever the answers do: those that
 * are due by then, each millisecond. Between them this process sleeps, for one that waited busily would take one of few
 * processors from the two programs that answer a check, and so measure the scheduler.
 */
export async function latencyMsP99(
  port: number,
  { perSecond, roundMs }: { readonly perSecond: number; readonly roundMs: number },
): Promise<number> {
  const latencies: number[] = []
  const sentMs = new Map<Socket, number>()
  const idle: Socket[] = []
  const sockets = await openAll(port, (socket) => {
    latencies.push(performance.now() - (sentMs.get(socket) ?? 0))
    idle.push(socket)
  })
  idle.push(...sockets)
  const startedMs = performance.now()
  let sent = 0
  while (performance.now() - startedMs < roundMs) {
    const due = ((performance.now() - startedMs) / 1_000) * perSecond
    while (sent < due) {
      const socket = idle.shift()
      // All are busy: what is late is sent as soon as one is free, and counts from then.
      if (socket === undefined) break
      sentMs.set(socket, performance.now())
      socket.write(REQUESTS[sent++ % TENANTS] ?? '')
    }
    await pass(TICK_MS)
  }
  await pass(50)
  for (const socket of sockets) socket.destroy()
  latencies.sort((a, b) => a - b)
  return latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN
}

async function openAll(
  port: number,
  answered: (socket: Socket) => void,
): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const socket = connect(port, '127.0.0.1')
    socket.setNoDelay(true)
    socket.on('data', () => answered(socket))
    return socket
  })
  await Promise.all(sockets.map((one) => new Promise((resolve) => one.once('connect', resolve))))
  return sockets
}

function requestFor(tenant: string): string {
  const descriptors = [{ entries: [{ key: 'tenant', value: tenant }] }]
  const body = JSON.stringify({ domain: 'api', descriptors, cost: 1 })
  return `POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
