/**
 * A region's record on the wire: JSON chunks, each with the whole header.
 *
 * A record is one atomic snapshot of a region, so its parts are worth nothing alone: fresh acknowledgements
 * with stale rows would date loans wrongly. Chunks are put together again by `RecordAssembly` before anything
 * looks at them.
 */
import { z } from 'zod'
import { parseCounterId } from '../core/counter-id.ts'
import type { RecordRow, RegionRecord, UsageRow } from '../core/ledger/types.ts'
import { POOL_UNITS, REGIONS_MAX } from '../core/units.ts'
import { QuotaError } from '../errors.ts'
import { REGION_PATTERN } from './subjects.ts'

/** Version of this wire format. A newer one is refused, not guessed at. */
export const RECORD_VERSION = 1

/**
 * Largest chunk in bytes. NATS refuses messages above `max_payload`, 1 MB by default; half of it leaves room
 * for operators who lowered the limit a little and for the headers of gateways. Smaller makes more messages,
 * and one lost message loses the record.
 */
export const CHUNK_BYTES_MAX = 512 * 1024

/** Most chunks of one record: 32 MB, above what ROWS_MAX rows of usual size need. Bounds a receiver's memory. */
export const CHUNKS_MAX = 64

/** Most rows of a record: the hot sets of all slot groups together. */
export const ROWS_MAX = 65_536

/** Most usage rows of a record: all kept windows of a thousand limits. A sender with more leaves old ones out. */
export const USAGE_ROWS_MAX = 65_536

/** Longest counter id: the tag, two numbers and a name of at most 128 bytes, with room to spare. */
const COUNTER_ID_LENGTH_MAX = 256

/** Most limits with an open epoch that one record speaks of. */
const OPEN_EPOCHS_MAX = 4_096

/** One message: the header of the record it belongs to, its place among the chunks, and its part of the rows. */
export interface RecordChunk extends RegionRecord {
  readonly index: number
  readonly count: number
}

export type RefusalReason = 'newer_version' | 'malformed' | 'too_large'

export type DecodedChunk =
  | { readonly kind: 'chunk'; readonly chunk: RecordChunk }
  | { readonly kind: 'refused'; readonly reason: RefusalReason; readonly detail: string }

const whole = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER)
const region = z.string().regex(REGION_PATTERN)
const mark = z.object({ incarnation: whole, fence: whole, seq: whole })

function byRegion<T extends z.ZodType>(value: T) {
  return z
    .record(region, value)
    .refine((map) => Object.keys(map).length <= REGIONS_MAX, `at most ${REGIONS_MAX} regions`)
}

const row = z.object({
  id: z
    .string()
    .max(COUNTER_ID_LENGTH_MAX)
    .refine((id) => parseCounterId(id) !== null, 'not a counter id'),
  share: whole.max(POOL_UNITS),
  demand: whole,
  hungry: z.boolean(),
  admitted: whole,
  denied: whole,
  returned: whole,
  quarantined: whole.max(POOL_UNITS),
  lent: byRegion(z.tuple([whole, whole, whole])),
  gaveBack: byRegion(z.tuple([whole, whole])),
})

const usageRow = z.object({
  limitId: whole,
  usageEpoch: whole,
  window: whole,
  admitted: whole,
  denied: whole,
  returned: whole,
})

const pair = z.object({
  lend: z.tuple([whole, whole]),
  borrow: z.tuple([whole, whole, z.union([z.literal(0), z.literal(1)])]),
})

const chunkMessage = z
  .object({
    v: z.literal(RECORD_VERSION),
    from: region,
    mark,
    policyRevision: whole,
    recovering: z.boolean(),
    adopted: z
      .record(z.string().regex(/^\d{1,16}$/), whole)
      .refine((map) => Object.keys(map).length <= OPEN_EPOCHS_MAX, 'too many open epochs'),
    acks: byRegion(mark),
    pairs: byRegion(pair),
    chunk: z.tuple([whole, whole.min(1).max(CHUNKS_MAX)]),
    rows: z.array(row).max(ROWS_MAX),
    usage: z.array(usageRow).max(USAGE_ROWS_MAX),
  })
  .refine((message) => message.chunk[0] < message.chunk[1], 'chunk index is below the count')

/**
 * Encodes a record as the payloads to publish, in order, each at most CHUNK_BYTES_MAX.
 *
 * Throws QUOTA_BUS_UNAVAILABLE when the record cannot fit in CHUNKS_MAX chunks: a record is sent whole or not
 * at all, since a receiver takes an absent row for a closed one.
 */
export function encodeRecord(record: RegionRecord): readonly string[] {
  const { rows, usage, ...header } = record
  const head = JSON.stringify({ v: RECORD_VERSION, ...header }).slice(0, -1)
  const chunks = packRows(rows, usage, CHUNK_BYTES_MAX - Buffer.byteLength(head) - FRAME_BYTES)
  if (chunks.length > CHUNKS_MAX) {
    throw new QuotaError(
      'QUOTA_BUS_UNAVAILABLE',
      `the record of ${record.from} needs ${chunks.length} chunks, more than ${CHUNKS_MAX}`,
    )
  }
  return chunks.map(
    (part, index) =>
      `${head},"chunk":[${index},${chunks.length}],"rows":[${part.rows.join()}],"usage":[${part.usage.join()}]}`,
  )
}

/** Parses and checks one message; never throws. A refused one says why, for the log and the metric. */
export function decodeChunk(payload: Uint8Array): DecodedChunk {
  if (payload.byteLength > CHUNK_BYTES_MAX) {
    return { kind: 'refused', reason: 'too_large', detail: `${payload.byteLength} bytes` }
  }
  const message = parseJson(payload)
  if (isNewer(message)) {
    return { kind: 'refused', reason: 'newer_version', detail: `version ${message.v}` }
  }
  const parsed = chunkMessage.safeParse(message)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const detail = `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not a record'}`
    return { kind: 'refused', reason: 'malformed', detail }
  }
  const { v: _version, chunk, ...record } = parsed.data
  return { kind: 'chunk', chunk: { ...record, index: chunk[0], count: chunk[1] } }
}

/** The record that complete chunks make, in the order of their index. */
export function joinChunks(chunks: readonly RecordChunk[]): RegionRecord | null {
  const [first] = chunks
  if (first === undefined) return null
  const { index: _index, count: _count, ...header } = first
  return {
    ...header,
    rows: chunks.flatMap((chunk) => chunk.rows),
    usage: chunks.flatMap((chunk) => chunk.usage),
  }
}

/** Room for what stands around the rows: names of three fields, two numbers of two digits, brackets. */
const FRAME_BYTES = 64

interface Part {
  readonly rows: string[]
  readonly usage: string[]
}

function packRows(
  rows: readonly RecordRow[],
  usage: readonly UsageRow[],
  budget: number,
): readonly Part[] {
  let part: Part = { rows: [], usage: [] }
  let left = budget
  const parts = [part]
  const put = (list: 'rows' | 'usage', item: RecordRow | UsageRow): void => {
    const json = JSON.stringify(item)
    const size = Buffer.byteLength(json) + 1
    if (size > left && left < budget) {
      part = { rows: [], usage: [] }
      parts.push(part)
      left = budget
    }
    part[list].push(json)
    left -= size
  }
  for (const item of rows) put('rows', item)
  for (const item of usage) put('usage', item)
  return parts
}

function parseJson(payload: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(payload))
  } catch {
    // Not JSON is one more way of being malformed; the schema refuses undefined and says so.
    return undefined
  }
}

function isNewer(message: unknown): message is { readonly v: number } {
  return (
    typeof message === 'object' &&
    message !== null &&
    'v' in message &&
    typeof message.v === 'number' &&
    message.v > RECORD_VERSION
  )
}
