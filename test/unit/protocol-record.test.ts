import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { counterId } from '../../shared/core/counter-id.ts'
import type { RegionRecord } from '../../shared/core/ledger/types.ts'
import { MalformedBytes } from '../../shared/protocol/bytes.ts'
import { CHUNK_BYTES_MAX, CHUNKS_MAX, RECORD_VERSION } from '../../shared/protocol/record.ts'
import { type EncodedRecord, RecordAssembly } from '../../shared/protocol/record-assembly.ts'
import { decodeUpdate } from '../../shared/protocol/record-body.ts'
import {
  decodeChunk,
  encodeRecord,
  type RecordChunk,
  type RefusalReason,
} from '../../shared/protocol/record-frame.ts'
import { applyUpdate } from '../../shared/protocol/record-reader.ts'
import { RecordWriter } from '../../shared/protocol/record-writer.ts'
import {
  incarnationSubject,
  REGION_PATTERN,
  regionOfSubject,
  stateSubject,
  syncSubject,
} from '../../shared/protocol/subjects.ts'
import { aRecord, NOTHING_KNOWN, payloadsOf, recordRows } from '../support/records.ts'

const whole = fc.nat({ max: Number.MAX_SAFE_INTEGER })
const region = fc
  .stringMatching(/^[a-z0-9][a-z0-9-]{0,62}$/)
  .filter((name) => REGION_PATTERN.test(name))
const mark = fc.record({ incarnation: whole, fence: whole, seq: whole })
const perRegion = <T>(value: fc.Arbitrary<T>) =>
  fc.dictionary(fc.constantFrom('a', 'b-2', 'us-east-1', '1'), value, { noNullPrototype: true })
const row = fc.record({
  id: fc
    .record({ limitId: fc.nat(), usageEpoch: fc.nat(), name: fc.string({ maxLength: 40 }) })
    .map((parts) => counterId({ group: 3, ...parts })),
  share: fc.nat({ max: 1_000_000 }),
  demand: whole,
  hungry: fc.boolean(),
  admitted: whole,
  denied: whole,
  returned: whole,
  quarantined: fc.nat({ max: 1_000_000 }),
  lent: perRegion(fc.tuple(whole, whole, whole)),
  gaveBack: perRegion(fc.tuple(whole, whole)),
})
const usage = fc.record({
  limitId: whole,
  usageEpoch: whole,
  window: whole,
  admitted: whole,
  denied: whole,
  returned: whole,
})
const record: fc.Arbitrary<RegionRecord> = fc.record({
  from: region,
  mark,
  policyRevision: whole,
  recovering: fc.boolean(),
  adopted: fc.dictionary(fc.nat().map(String), whole, { maxKeys: 4, noNullPrototype: true }),
  acks: perRegion(mark),
  pairs: perRegion(
    fc.record({
      lend: fc.tuple(whole, whole),
      borrow: fc.tuple(whole, whole, fc.constantFrom(0 as const, 1 as const)),
    }),
  ),
  rows: fc.uniqueArray(row, { maxLength: 20, selector: ({ id }) => id }),
  usage: fc.array(usage, { maxLength: 5 }),
})

describe('a record on the wire', () => {
  it('is the same record after encoding and decoding', () => {
    fc.assert(
      fc.property(record, (sent) => {
        expect(received(payloadsOf(sent))).toEqual(sent)
      }),
      { numRuns: 100 },
    )
  })

  it('is cut into chunks under the bound, and makes the same record in whatever order they come (B158)', () => {
    const sent = aRecord({ rows: recordRows(20_000) })
    const payloads = payloadsOf(sent)
    expect(payloads.length).toBeGreaterThan(1)
    expect(Math.max(...payloads.map(({ byteLength }) => byteLength))).toBeLessThanOrEqual(
      CHUNK_BYTES_MAX,
    )
    const mixed = [...payloads].reverse().flatMap((payload) => [payload, payload])
    expect(received(mixed)).toEqual(sent)
  })

  it('is cut smaller for a server that takes less at once', () => {
    const sent = aRecord({ rows: recordRows(5_000) })
    const payloads = encodeRecord(new RecordWriter().next(sent, NOTHING_KNOWN), 8_192)
    expect(Math.max(...payloads.map(({ byteLength }) => byteLength))).toBeLessThanOrEqual(8_192)
    expect(received(payloads)).toEqual(sent)
  })

  it('is dropped whole when a chunk is lost', () => {
    const assembly = new RecordAssembly()
    const torn = chunksOf(aRecord({ seq: 1, rows: recordRows(20_000) })).slice(1)
    expect(torn.map((chunk) => assembly.add(chunk, 0)).every((whole) => whole === null)).toBe(true)
    const next = chunksOf(aRecord({ seq: 2, rows: recordRows(20_000) }))
    expect(next.map((chunk) => assembly.add(chunk, 0)).at(-1)?.mark.seq).toBe(2)
  })

  it('is never made of chunks of two records', () => {
    const assembly = new RecordAssembly()
    const [oldFirst, ...oldRest] = chunksOf(aRecord({ seq: 1, rows: recordRows(20_000) }))
    const [newFirst, ...newRest] = chunksOf(aRecord({ seq: 2, rows: recordRows(20_000) }))
    const order = [oldFirst, newFirst, ...oldRest, ...newRest].filter((c) => c !== undefined)
    const whole = order.map((chunk) => assembly.add(chunk, 0)).filter((made) => made !== null)
    expect(whole.map((made) => made.mark.seq)).toEqual([2])
  })

  it('of a sender whose marks went back is heard once the torn newer one is stale', () => {
    const assembly = new RecordAssembly()
    for (const chunk of chunksOf(aRecord({ seq: 9, rows: recordRows(20_000) })).slice(1)) {
      assembly.add(chunk, 0)
    }
    const earlier = chunksOf(aRecord({ seq: 1, rows: recordRows(20_000) }))
    expect(earlier.map((chunk) => assembly.add(chunk, 1_000)).at(-1)).toBeNull()
    expect(earlier.map((chunk) => assembly.add(chunk, 6_000)).at(-1)).not.toBeNull()
  })

  it('that cannot fit in the greatest number of chunks is refused whole by the sender', () => {
    const update = new RecordWriter().next(aRecord({ rows: recordRows(20_000) }), NOTHING_KNOWN)
    expect(() => encodeRecord(update, 4_096)).toThrow(`too many for ${CHUNKS_MAX} chunks`)
    expect(() => encodeRecord(update, 100)).toThrow('too many')
  })
})

describe('a message that is not a record of this version', () => {
  const [whole = new Uint8Array()] = payloadsOf(aRecord({ rows: recordRows(3) }))

  it.each([
    ['text', Buffer.from('hello')],
    ['a JSON document', Buffer.from('{"v":1}')],
    ['nothing', new Uint8Array()],
    ['a version before the first', changed(2, 0)],
    ['a name that is no region', changed(4, 0x2e)],
  ])('is refused as malformed: %s', (_, payload) => {
    expect(refusal(payload)).toBe('malformed')
  })

  it('is refused as newer when its version is newer, whatever else it holds', () => {
    expect(refusal(changed(2, RECORD_VERSION + 1))).toBe('newer_version')
    expect(refusal(Buffer.from([0x51, 0x70, 255]))).toBe('newer_version')
  })

  it('is refused unread when it is larger than a chunk can be', () => {
    expect(refusal(Buffer.alloc(CHUNK_BYTES_MAX + 1))).toBe('too_large')
  })

  it('is refused wherever it is cut off, and never read past its end', () => {
    for (let length = 0; length < whole.byteLength; length++) {
      expect(refusal(whole.subarray(0, length))).toBe('malformed')
    }
  })

  it('does no harm however its bytes are changed: it is refused, or it is a record within the bounds', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 255 }), fc.nat(), (at, value, other) => {
        const bytes = Buffer.from(whole)
        bytes[3 + (at % (bytes.length - 3))] = value
        bytes[3 + (other % (bytes.length - 3))] = value ^ 0x80
        const reason = refusal(bytes)
        if (reason !== null) expect(reason).toBe('malformed')
        else for (const row of received([bytes])?.rows ?? []) expectSound(row)
      }),
      { numRuns: 500 },
    )
  })

  it('may go on after its end with what a later version adds', () => {
    expect(received([Buffer.concat([whole, Buffer.from('more')])])).toEqual(received([whole]))
  })

  function changed(at: number, value: number): Uint8Array {
    const bytes = Buffer.from(whole)
    bytes[at] = value
    return bytes
  }
})

describe('subjects', () => {
  it('name exactly one region, and two regions never share one', () => {
    fc.assert(
      fc.property(region, region, (a, b) => {
        expect(regionOfSubject(stateSubject(a))).toBe(a)
        expect(stateSubject(a) === stateSubject(b)).toBe(a === b)
        const of = [stateSubject(a), incarnationSubject(a), syncSubject(a)]
        expect(new Set(of).size).toBe(of.length)
      }),
    )
  })

  it('never name a region as every object has something', () => {
    const inherited = Object.getOwnPropertyNames(Object.prototype)
    expect(inherited).toContain('constructor')
    for (const name of inherited) expect(() => stateSubject(name)).toThrow("a region's name")
  })

  it.each(['', 'a.b', 'a b', '*', '>', 'US', '-a'])('cannot be built for "%s"', (name) => {
    expect(() => stateSubject(name)).toThrow("a region's name")
  })
})

function chunksOf(sent: RegionRecord): readonly RecordChunk[] {
  return payloadsOf(sent).map((payload) => {
    const decoded = decodeChunk(payload)
    if (decoded.kind === 'refused') throw new Error(decoded.detail)
    return decoded.chunk
  })
}

/** The record that messages make of nothing; null when they make none. */
function received(payloads: readonly Uint8Array[]): RegionRecord | null {
  const assembly = new RecordAssembly()
  let encoded: EncodedRecord | null = null
  for (const payload of payloads) {
    const decoded = decodeChunk(payload)
    if (decoded.kind === 'chunk') encoded = assembly.add(decoded.chunk, 0) ?? encoded
  }
  if (encoded === null) return null
  const applied = applyUpdate(null, decodeUpdate(encoded, encoded.body))
  return applied.kind === 'record' ? applied.held.record : null
}

/** Why a message of one chunk is refused, by its frame or by its content; null when it is not. */
function refusal(payload: Uint8Array): RefusalReason | null {
  const decoded = decodeChunk(payload)
  if (decoded.kind === 'refused') return decoded.reason
  try {
    decodeUpdate(decoded.chunk, decoded.chunk.part)
    return null
  } catch (err) {
    if (err instanceof MalformedBytes) return 'malformed'
    throw err
  }
}

function expectSound(row: RegionRecord['rows'][number]): void {
  const { id: _id, hungry: _hungry, lent, gaveBack, ...figures } = row
  const all = [...Object.values(figures), ...Object.values({ ...lent, ...gaveBack }).flat()]
  expect(all.every((figure) => Number.isSafeInteger(figure) && figure >= 0)).toBe(true)
  expect(Math.max(row.share, row.quarantined)).toBeLessThanOrEqual(1_000_000)
}
