/**
 * What a record costs on the wire and in the processor, in the format that is used and in those that were not.
 *
 * Run with `npm run bench:records`: one JSON line for each number of hot keys, form and format. `whole` tells every
 * row; `busy` tells new demand of every row and counts of a fifth of them, `calm` of a tenth of the rows.
 */
import { deflateRawSync, gzipSync, inflateRawSync, unzipSync } from 'node:zlib'
import { counterId } from '../../shared/core/counter-id.ts'
import type { RecordRow, RegionRecord } from '../../shared/core/ledger/types.ts'
import type { RecordUpdate } from '../../shared/protocol/record.ts'
import { decodeUpdate, encodeUpdate } from '../../shared/protocol/record-body.ts'
import { applyUpdate, type HeldRecord } from '../../shared/protocol/record-reader.ts'
import { RecordWriter } from '../../shared/protocol/record-writer.ts'

const HOT_KEYS = [1_000, 10_000]
const PEERS = ['eu-west-1', 'eu-central-1', 'ap-south-1', 'ap-northeast-1']
const ROUNDS = 20
const NOTHING = { rows: -1, usage: -1 }

interface Format {
  readonly name: string
  readonly encode: (update: RecordUpdate) => Uint8Array
  readonly decode: (bytes: Uint8Array, update: RecordUpdate) => unknown
}

const toText = (update: RecordUpdate): Uint8Array => Buffer.from(JSON.stringify(update))
const fromText = (bytes: Uint8Array): unknown => JSON.parse(Buffer.from(bytes).toString())

const FORMATS: readonly Format[] = [
  {
    name: 'binary',
    encode: encodeUpdate,
    decode: (bytes, { header: { from, mark }, since }) =>
      decodeUpdate({ from, mark, since }, bytes),
  },
  { name: 'json', encode: toText, decode: fromText },
  {
    name: 'json+deflate',
    encode: (update) => deflateRawSync(toText(update), { level: 1 }),
    decode: (bytes) => fromText(inflateRawSync(bytes)),
  },
  {
    name: 'json+gzip',
    encode: (update) => gzipSync(toText(update)),
    decode: (bytes) => fromText(unzipSync(bytes)),
  },
  {
    name: 'binary+deflate',
    encode: (update) => deflateRawSync(encodeUpdate(update), { level: 1 }),
    decode: (bytes, { header: { from, mark }, since }) =>
      decodeUpdate({ from, mark, since }, inflateRawSync(bytes)),
  },
]

export function reportFormats(): void {
  for (const keys of HOT_KEYS) {
    const rows = rowsOf(keys)
    for (const [form, changed] of Object.entries({
      whole: null,
      busy: busy(rows, 1),
      calm: busy(rows, 10),
    })) {
      for (const format of FORMATS) report(keys, form, format, rows, changed)
    }
  }
}

function report(
  hotKeys: number,
  form: string,
  format: Format,
  rows: readonly RecordRow[],
  changed: readonly RecordRow[] | null,
): void {
  const writer = new RecordWriter()
  const first = writer.next(aRecord(1, rows), NOTHING)
  const update = changed === null ? first : writer.next(aRecord(2, changed), { rows: 1, usage: 1 })
  const held = changed === null ? null : heldOf(first)
  // As what is sent in JSON: the parts as they are, not the rows that hold them.
  const message = format.name.startsWith('json') ? plain(update) : update
  const bytes = format.encode(message)
  const encodeMs = timeMs(() => format.encode(message))
  const decodeMs = timeMs(() => format.decode(bytes, message))
  const applyMs = timeMs(() => applyUpdate(held, update))
  const line = {
    hotKeys,
    form,
    format: format.name,
    bytes: bytes.byteLength,
    bytesPerKey: round(bytes.byteLength / hotKeys),
    encodeMs,
    decodeMs,
    applyMs,
  }
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function timeMs(run: () => unknown): number {
  for (let round = 0; round < 3; round++) run()
  const startMs = performance.now()
  for (let round = 0; round < ROUNDS; round++) run()
  return round((performance.now() - startMs) / ROUNDS)
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

function heldOf(update: RecordUpdate): HeldRecord | null {
  const applied = applyUpdate(null, update)
  return applied.kind === 'record' ? applied.held : null
}

function plain(update: RecordUpdate): RecordUpdate {
  const rows = update.rows.map((row) => ({
    ...row,
    position: row.position && {
      share: row.position.share,
      hungry: row.position.hungry,
      quarantined: row.position.quarantined,
      lent: row.position.lent,
      gaveBack: row.position.gaveBack,
    },
    counts: row.counts && {
      admitted: row.counts.admitted,
      denied: row.counts.denied,
      returned: row.counts.returned,
    },
  }))
  return { ...update, rows }
}

/** Every third key lends to one peer or two; figures as large as those of a busy limit. */
function rowsOf(count: number): readonly RecordRow[] {
  return Array.from({ length: count }, (_, index) => {
    const peers = index % 3 === 0 ? PEERS.slice(index % 4, (index % 4) + 2) : []
    return {
      id: counterId({
        group: index % 16,
        limitId: 1 + (index % 50),
        usageEpoch: 0,
        name: `tenant=customer-${100_000 + index * 7}`,
      }),
      share: 200_000 + index,
      demand: 150_000 + index * 13,
      hungry: index % 20 === 0,
      admitted: 1_000_000 + index * 31,
      denied: index * 17,
      returned: 0,
      quarantined: 0,
      lent: Object.fromEntries(
        peers.map((peer) => [peer, [index, 40_000 + index, index] as const]),
      ),
      gaveBack: {},
    }
  })
}

function busy(rows: readonly RecordRow[], every: number): readonly RecordRow[] {
  return rows.map((row, index) => {
    if (index % every !== 0) return row
    const counts = index % 5 === 0 ? { admitted: row.admitted + 900, denied: row.denied + 100 } : {}
    return { ...row, demand: row.demand + 10_000, ...counts }
  })
}

function aRecord(seq: number, rows: readonly RecordRow[]): RegionRecord {
  const mark = { incarnation: 1_764_000_000_000, fence: 12, seq: 1_000 + seq }
  return {
    from: 'us-east-1',
    mark: { ...mark, seq },
    policyRevision: 42,
    recovering: false,
    adopted: {},
    acks: Object.fromEntries(PEERS.map((peer) => [peer, mark])),
    pairs: Object.fromEntries(
      PEERS.map((peer) => [
        peer,
        { lend: [3, mark.incarnation] as const, borrow: [mark.incarnation, 2, 0] as const },
      ]),
    ),
    rows,
    usage: [],
  }
}
