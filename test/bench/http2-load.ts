/**
 * Unary gRPC calls over raw sockets, so that the load costs less than what it measures: a client library takes more
 * processor time for a call than the server does.
 *
 * Just enough of HTTP/2 (RFC 9113) for it: requests are the same bytes but for their stream's number, header fields
 * are literals that need no state, and of what arrives only the ends of streams are counted.
 */
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
const TYPE = { data: 0, headers: 1, settings: 4, ping: 6, windowUpdate: 8 }
const FLAG = { endStream: 1, ack: 1, endHeaders: 4 }

/** Answered calls a second. */
export async function callsPerSecondOver(load: Http2Load): Promise<number> {
  const counter = { answered: 0, sent: 0 }
  const sockets = Array.from({ length: load.connections }, () => open(load, counter))
  await pass(load.roundMs / 3)
  const before = counter.answered
  const startedMs = performance.now()
  await pass(load.roundMs)
  const rate = ((counter.answered - before) * 1_000) / (performance.now() - startedMs)
  for (const socket of sockets) socket.destroy()
  if (counter.answered === 0) throw new Error('nothing was answered')
  return rate
}

function open(load: Http2Load, counter: { answered: number; sent: number }): Socket {
  const fields = requestFields(load)
  const socket = connect(load.port, '127.0.0.1')
  socket.setNoDelay(true)
  let stream = 1
  const call = (): void => {
    const message = load.messages[counter.sent++ % load.messages.length] ?? Buffer.alloc(0)
    const body = Buffer.alloc(5 + message.length)
    body.writeUInt32BE(message.length, 1)
    message.copy(body, 5)
    const headers = frame(TYPE.headers, FLAG.endHeaders, stream, fields)
    socket.write(Buffer.concat([headers, frame(TYPE.data, FLAG.endStream, stream, body)]))
    stream += 2
  }
  socket.on('connect', () => {
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    socket.write(frame(TYPE.settings, 0, 0, Buffer.alloc(0)))
    // As much as there is, so that no answer ever waits for room.
    const room = Buffer.alloc(4)
    room.writeUInt32BE(2 ** 31 - 1 - 65_535)
    socket.write(frame(TYPE.windowUpdate, 0, 0, room))
    for (let started = 0; started < load.streams; started++) call()
  })
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    rest = readFrames(rest.length === 0 ? chunk : Buffer.concat([rest, chunk]), (type, flags) => {
      if (type === TYPE.settings && (flags & FLAG.ack) === 0) {
        socket.write(frame(TYPE.settings, FLAG.ack, 0, Buffer.alloc(0)))
      }
      const isStream = type === TYPE.headers || type === TYPE.data
      if (!isStream || (flags & FLAG.endStream) === 0) return
      counter.answered++
      call()
    })
  })
  socket.on('error', () => {})
  return socket
}

/** Tells of each whole frame; gives the bytes of one that has not arrived whole. */
function readFrames(bytes: Buffer, tell: (type: number, flags: number) => void): Buffer {
  let position = 0
  while (bytes.length - position >= FRAME_HEADER_BYTES) {
    const end = position + FRAME_HEADER_BYTES + bytes.readUIntBE(position, 3)
    if (end > bytes.length) break
    tell(bytes.readUInt8(position + 3), bytes.readUInt8(position + 4))
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
