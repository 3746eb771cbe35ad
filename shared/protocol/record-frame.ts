/**
 * The messages that carry a record: its bytes in chunks, each behind a frame that says which record it is part of.
 *
 * A version that is not known is recognised by the first three bytes, so those never change.
 */
import { QuotaError } from '../errors.ts'
import { ByteReader, ByteWriter, MalformedBytes } from './bytes.ts'
import {
  CHUNK_BYTES_MAX,
  CHUNKS_MAX,
  RECORD_BYTES_MAX,
  RECORD_VERSION,
  type RecordUpdate,
} from './record.ts'
import { encodeUpdate, type RecordAddress, readMark, readName, writeMark } from './record-body.ts'

/** What every message on a record subject begins with. */
const SIGN = [0x51, 0x70] as const

/** Room for a frame: a name, seven numbers, and what stands before them. */
const FRAME_BYTES_MAX = 160

/** One message: which record it belongs to, its place among the chunks, and its part of the bytes. */
export interface RecordChunk extends RecordAddress {
  readonly index: number
  readonly count: number
  readonly part: Uint8Array
}

export type RefusalReason = 'newer_version' | 'malformed' | 'too_large'

export type DecodedChunk =
  | { readonly kind: 'chunk'; readonly chunk: RecordChunk }
  | { readonly kind: 'refused'; readonly reason: RefusalReason; readonly detail: string }

/**
 * The payloads of an update, in order, each at most `payloadBytesMax`.
 *
 * Throws QUOTA_BUS_UNAVAILABLE when they would be more than CHUNKS_MAX or the record larger than RECORD_BYTES_MAX: a
 * record is sent whole or not at all, since a receiver takes an absent row for a closed one.
 */
export function encodeRecord(
  update: RecordUpdate,
  payloadBytesMax: number = CHUNK_BYTES_MAX,
): readonly Uint8Array[] {
  const { from, mark } = update.header
  const body = encodeUpdate(update)
  const room = Math.min(payloadBytesMax, CHUNK_BYTES_MAX) - FRAME_BYTES_MAX
  const count = room > 0 ? Math.max(1, Math.ceil(body.byteLength / room)) : Number.POSITIVE_INFINITY
  if (count > CHUNKS_MAX || body.byteLength > RECORD_BYTES_MAX) {
    throw new QuotaError(
      'QUOTA_BUS_UNAVAILABLE',
      `the record of ${from} has ${body.byteLength} bytes: too many for ${CHUNKS_MAX} chunks of ${room}`,
    )
  }
  return Array.from({ length: count }, (_, index) => {
    const part = body.subarray(index * room, (index + 1) * room)
    return encodeChunk({ from, mark, since: update.since, index, count, part })
  })
}

/** Parses the frame of one message; never throws. A refused one says why, for the log and the metric. */
export function decodeChunk(payload: Uint8Array): DecodedChunk {
  if (payload.byteLength > CHUNK_BYTES_MAX) {
    return { kind: 'refused', reason: 'too_large', detail: `${payload.byteLength} bytes` }
  }
  try {
    const reader = new ByteReader(payload)
    if (reader.byte() !== SIGN[0] || reader.byte() !== SIGN[1]) {
      throw new MalformedBytes('not a record')
    }
    const version = reader.byte()
    if (version > RECORD_VERSION) {
      return { kind: 'refused', reason: 'newer_version', detail: `version ${version}` }
    }
    if (version < RECORD_VERSION) throw new MalformedBytes(`version ${version} is not known`)
    return { kind: 'chunk', chunk: readChunk(reader) }
  } catch (err) {
    if (!(err instanceof MalformedBytes)) throw err
    return { kind: 'refused', reason: 'malformed', detail: err.message }
  }
}

function encodeChunk({ from, mark, since, index, count, part }: RecordChunk): Uint8Array {
  const writer = new ByteWriter(part.byteLength + FRAME_BYTES_MAX)
  for (const byte of SIGN) writer.byte(byte)
  writer.byte(RECORD_VERSION)
  writer.text(from)
  writeMark(writer, mark)
  writer.whole(since.rows + 1)
  writer.whole(since.usage + 1)
  writer.whole(index)
  writer.whole(count)
  writer.bytes(part)
  return writer.result()
}

function readChunk(reader: ByteReader): RecordChunk {
  const [from, mark] = [readName(reader), readMark(reader)]
  const since = { rows: reader.whole() - 1, usage: reader.whole() - 1 }
  const [index, count] = [reader.whole(), reader.whole(CHUNKS_MAX)]
  if (index >= count) throw new MalformedBytes('a chunk is beyond the count')
  if (since.rows >= mark.seq || since.usage >= mark.seq) {
    throw new MalformedBytes('a record rests on a later one')
  }
  return { from, mark, since, index, count, part: reader.rest() }
}
