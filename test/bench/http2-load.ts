/**
 * Unary gRPC calls over raw sockets, so that the load costs less than what it measures: a client library takes more
 * processor time for a call than the server does.
 *
 * Just enough of HTTP/2 (RFC 9113) for it: requests are the same bytes but for their stream's number, header fields
 * are literals that need no state, and of what arrives only the ends of streams are counted.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface Http2Load {
  readonly port: number
  readonly path: string
  /** Encoded messages, sent one after the other. */
  readonly messages: readonly Buffer[]
  readonly connections: number
  /** Calls under way on each connection. */
  readonly streams: number
  readonly roundMs: number
}

const FRAME_HEADER_BYTES = 9
const TICK_MS = 1
const TYPE = { data: 0, headers: 1, settings: 4, ping: 6, windowUpdate: 8 }
const FLAG = { endStream: 1, ack: 1, endHeaders: 4 }

/** Answered calls a second, as many under way as the load says. */
export async function callsPerSecondOver(load: Http2Load): Promise<number> {
  let answered = 0
  const connections = await openAll(load, (connection) => {
    answered++
    connection.call()
  })
  for (const connection of connections) {
    for (let started = 0; started < load.streams; started++) connection.call()
  }
  await pass(load.roundMs / 3)
  const before = answered
  const startedMs = performance.now()
  await pass(load.roundMs)
  const rate = ((answered - before) * 1_000) / (performance.now() - startedMs)
  for (const { socket } of connections) socket.destroy()
  if (answered === 0) throw new Error('nothing was answered')
  return rate
}

/** As of `latencyMsP99` of HTTP: `perSecond` calls come whatever the answers do. */
export async function latencyMsP99Over(load: Http2Load, perSecond: number): Promise<number> {
  const latencies: number[] = []
  const idle: Connection[] = []
  const sentMs = new Map<Connection, Map<number, number>>()
  const connections = await openAll(load, (connection, stream) => {
    latencies.push(performance.now() - (sentMs.get(connection)?.get(stream) ?? 0))
    sentMs.get(connection)?.delete(stream)
    idle.push(connection)
  })
  for (const connection of connections) sentMs.set(connection, new Map())
  for (let place = 0; place < load.streams; place++) idle.push(...connections)
  const startedMs = performance.now()
  let sent = 0
  while (performance.now() - startedMs < load.roundMs) {
    const due = ((performance.now() - startedMs) / 1_000) * perSecond
    while (sent < due) {
      const connection = idle.shift()
      if (connection === undefined) break
      const nowMs = performance.now()
      sentMs.get(connection)?.set(connection.call(), nowMs)
      sent++
    }
    await pass(TICK_MS)
  }
  await pass(50)
  for (const { socket } of connections) socket.destroy()
  latencies.sort((a, b) => a - b)
  return latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN
}

type Answered = (connection: Connection, stream: number) => void

async function openAll(load: Http2Load, answered: Answered): Promise<readonly Connection[]> {
  const counter = { sent: 0 }
  const connections = Array.from(
    { length: load.connections },
    () => new Connection(load, counter, answered),
  )
  await Promise.all(connections.map(({ socket }) => once(socket, 'connect')))
  return connections
}

class Connection {
  readonly socket: Socket
  readonly #load: Http2Load
  readonly #counter: { sent: number }
  readonly #fields: Buffer
  #stream = 1

  constructor(load: Http2Load, counter: { sent: number }, answered: Answered) {
    this.#load = load
    this.#counter = counter
    this.#fields = requestFields(load)
    const socket = connect(load.port, '127.0.0.1')
    this.socket = socket
    socket.setNoDelay(true)
    socket.on('connect', () => greet(socket))
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      rest = readFrames(bytes, (type, flags, stream) => {
        if (type === TYPE.settings && (flags & FLAG.ack) === 0) {
          socket.write(frame(TYPE.settings, FLAG.ack, 0, Buffer.alloc(0)))
        }
        const isStream = type === TYPE.headers || type === TYPE.data
        if (isStream && (flags & FLAG.endStream) !== 0) answered(this, stream)
      })
    })
    socket.on('error', () => {})
  }

  /** The stream on which the answer comes. */
  call(): number {
    const { messages } = this.#load
    const message = messages[this.#counter.sent++ % messages.length] ?? Buffer.alloc(0)
    const body = Buffer.alloc(5 + message.length)
    body.writeUInt32BE(message.length, 1)
    message.copy(body, 5)
    const stream = this.#stream
    this.#stream += 2
    const headers = frame(TYPE.headers, FLAG.endHeaders, stream, this.#fields)
    this.socket.write(Buffer.concat([headers, frame(TYPE.data, FLAG.endStream, stream, body)]))
    return stream
  }
}

function greet(socket: Socket): void {
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  socket.write(frame(TYPE.settings, 0, 0, Buffer.alloc(0)))
  // As much as there is, so that no answer ever waits for room.
  const room = Buffer.alloc(4)
  room.writeUInt32BE(2 ** 31 - 1 - 65_535)
  socket.write(frame(TYPE.windowUpdate, 0, 0, room))
}

/** Three numbers and no object: one is read for each frame. */
type TellFrame = (type: number, flags: number, stream: number) => void

/** Tells of each whole frame; gives the bytes of one that has not arrived whole. */
function readFrames(bytes: Buffer, tell: TellFrame): Buffer {
  let position = 0
  while (bytes.length - position >= FRAME_HEADER_BYTES) {
    const end = position + FRAME_HEADER_BYTES + bytes.readUIntBE(position, 3)
    if (end > bytes.length) break
    const stream = bytes.readUInt32BE(position + 5)
    tell(bytes.readUInt8(position + 3), bytes.readUInt8(position + 4), stream)
    position = end
  }
  return bytes.subarray(position)
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const bytes = Buffer.alloc(FRAME_HEADER_BYTES + payload.length)
  bytes.writeUIntBE(payload.length, 0, 3)
  bytes.writeUInt8(type, 3)
  bytes.writeUInt8(flags, 4)
  bytes.writeUInt32BE(stream, 5)
  payload.copy(bytes, FRAME_HEADER_BYTES)
  return bytes
}

/** By RFC 7541: two indexed fields, then literals that are not remembered. */
function requestFields({ path, port }: Http2Load): Buffer {
  const literal = (prefix: readonly number[], value: string): Buffer =>
    Buffer.concat([Buffer.from([...prefix, value.length]), Buffer.from(value)])
  const POST = 0x83
  const HTTP = 0x86
  return Buffer.concat([
    Buffer.from([POST, HTTP]),
    literal([0x04], path),
    literal([0x01], `127.0.0.1:${port}`),
    literal([0x0f, 0x10], 'application/grpc'),
    literal([0x00, 2, ...Buffer.from('te')], 'trailers'),
  ])
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
