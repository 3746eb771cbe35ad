import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { counterId } from '../../shared/core/counter-id.ts'
import type { RecordRow, RegionRecord } from '../../shared/core/ledger/types.ts'
import {
  CHUNK_BYTES_MAX,
  CHUNKS_MAX,
  decodeChunk,
  encodeRecord,
  type RecordChunk,
} from '../../shared/protocol/record.ts'
import { RecordAssembly } from '../../shared/protocol/record-assembly.ts'
import {
  incarnationSubject,
  REGION_PATTERN,
  regionOfSubject,
  stateSubject,
} from '../../shared/protocol/subjects.ts'

const whole = fc.nat({ max: Number.MAX_SAFE_INTEGER })
const region = fc.stringMatching(REGION_PATTERN)
const mark = fc.record({ incarnation: whole, fence: whole, seq: whole })
const perRegion = <T>(value: fc.Arbitrary<T>) =>
  fc.dictionary(region, value, { maxKeys: 5, noNullPrototype: true })
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
  rows: fc.array(row, { maxLength: 20 }),
  usage: fc.array(usage, { maxLength: 5 }),
})

describe('a record on the wire', () => {
  it('is the same record after encoding and decoding', () => {
    fc.assert(
      fc.property(record, (sent) => {
        const assembly = new RecordAssembly()
        const received = chunksOf(sent).map((chunk) => assembly.add(chunk, 0))
        expect(received.at(-1)).toEqual(sent)
      }),
      { numRuns: 200 },
    )
  })

  it('is cut into chunks under the bound, and makes the same record in whatever order they come', () => {
    const sent = aRecord({ rows: manyRows(12_000) })
    const payloads = encodeRecord(sent)
    expect(payloads.length).toBeGreaterThan(2)
    for (const payload of payloads) {
      expect(Buffer.byteLength(payload)).toBeLessThanOrEqual(CHUNK_BYTES_MAX)
    }
    const assembly = new RecordAssembly()
    const received = [...chunksOf(sent)]
      .reverse()
      .flatMap((chunk) => [assembly.add(chunk, 0), assembly.add(chunk, 0)])
      .filter((whole) => whole !== null)
    expect(received).toEqual([sent])
  })

  it('is dropped whole when a chunk is lost', () => {
    const assembly = new RecordAssembly()
    const torn = chunksOf(aRecord({ seq: 1, rows: manyRows(6_000) })).slice(1)
    const next = aRecord({ seq: 2, rows: manyRows(6_000) })
    expect(torn.map((chunk) => assembly.add(chunk, 0)).every((whole) => whole === null)).toBe(true)
    expect(
      chunksOf(next)
        .map((chunk) => assembly.add(chunk, 0))
        .at(-1),
    ).toEqual(next)
  })

  it('is never made of chunks of two records', () => {
    const assembly = new RecordAssembly()
    const [oldFirst, ...oldRest] = chunksOf(aRecord({ seq: 1, rows: manyRows(6_000) }))
    const [newFirst, ...newRest] = chunksOf(aRecord({ seq: 2, rows: manyRows(6_000) }))
    const order = [oldFirst, newFirst, ...oldRest, ...newRest].filter((c) => c !== undefined)
    const whole = order.map((chunk) => assembly.add(chunk, 0)).filter((made) => made !== null)
    expect(whole.map((made) => made.mark.seq)).toEqual([2])
  })

  it('of a sender whose marks went back is heard once the torn newer one is stale', () => {
    const assembly = new RecordAssembly()
    for (const chunk of chunksOf(aRecord({ seq: 9, rows: manyRows(6_000) })).slice(1)) {
      assembly.add(chunk, 0)
    }
    const earlier = chunksOf(aRecord({ seq: 1, rows: manyRows(6_000) }))
    expect(earlier.map((chunk) => assembly.add(chunk, 1_000)).at(-1)).toBeNull()
    expect(earlier.map((chunk) => assembly.add(chunk, 6_000)).at(-1)).not.toBeNull()
  })

  it('that cannot fit in the greatest number of chunks is refused whole by the sender', () => {
    const loan: readonly [number, number, number] = [1, 1, 0]
    const lent = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`region-${i}`, loan]))
    const rows = manyRows(26_000).map((one) => ({ ...one, lent }))
    expect(() => encodeRecord(aRecord({ rows }))).toThrow(`more than ${CHUNKS_MAX}`)
  })
})

describe('a message that is not a record of this version', () => {
  it.each([
    ['not JSON', 'hello'],
    ['null', 'null'],
    ['a list', '[]'],
    ['no version', '{}'],
    ['a negative number', edited((m) => ({ ...m, policyRevision: -1 }))],
    ['a fraction', edited((m) => ({ ...m, policyRevision: 1.5 }))],
    ['a number above the safe integers', edited((m) => ({ ...m, policyRevision: 2 ** 53 }))],
    ['a share above the pool', edited((m) => ({ ...m, rows: [{ ...aRow(1), share: 1_000_001 }] }))],
    ['a name in capitals', edited((m) => ({ ...m, from: 'US-EAST-1' }))],
    ['a key that is no counter', edited((m) => ({ ...m, rows: [{ ...aRow(1), id: 'tenant' }] }))],
    ['a chunk index at the count', edited((m) => ({ ...m, chunk: [1, 1] }))],
    ['a key that would reach the prototype', edited((m) => ({ ...m, acks: { a__proto__: {} } }))],
    [
      'more regions than a plane may have',
      edited((m) => ({
        ...m,
        acks: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`r${i}`, m['mark']])),
      })),
    ],
  ])('is refused as malformed: %s', (_, payload) => {
    expect(decodeChunk(Buffer.from(payload))).toMatchObject({
      kind: 'refused',
      reason: 'malformed',
    })
  })

  it('is refused as newer when its version is newer, whatever else it holds', () => {
    expect(decodeChunk(Buffer.from('{"v":2,"anything":true}'))).toMatchObject({
      kind: 'refused',
      reason: 'newer_version',
    })
  })

  it('is refused unread when it is larger than a chunk can be', () => {
    expect(decodeChunk(Buffer.alloc(CHUNK_BYTES_MAX + 1))).toMatchObject({ reason: 'too_large' })
  })

  it('is read without fields that this version does not know', () => {
    const payload = edited((m) => ({ ...m, later: 1 }))
    expect(decodeChunk(Buffer.from(payload))).toMatchObject({ kind: 'chunk' })
  })
})

describe('subjects', () => {
  it('name exactly one region, and two regions never share one', () => {
    fc.assert(
      fc.property(region, region, (a, b) => {
        expect(regionOfSubject(stateSubject(a))).toBe(a)
        expect(stateSubject(a) === stateSubject(b)).toBe(a === b)
        expect(incarnationSubject(a)).not.toBe(stateSubject(a))
      }),
    )
  })

  it.each(['', 'a.b', 'a b', '*', '>', 'US', '-a'])('cannot be built for "%s"', (name) => {
    expect(() => stateSubject(name)).toThrow("a region's name")
  })
})

function chunksOf(sent: RegionRecord): readonly RecordChunk[] {
  return encodeRecord(sent).map((payload) => {
    const decoded = decodeChunk(Buffer.from(payload))
    if (decoded.kind === 'refused') throw new Error(decoded.detail)
    return decoded.chunk
  })
}

function edited(edit: (message: Record<string, unknown>) => object): string {
  const [payload = ''] = encodeRecord(aRecord({ rows: [aRow(1)] }))
  return JSON.stringify(edit(JSON.parse(payload)))
}

function manyRows(count: number): readonly RecordRow[] {
  return Array.from({ length: count }, (_, i) => aRow(i))
}

function aRow(i: number): RecordRow {
  return {
    id: counterId({ group: 1, limitId: 7, usageEpoch: 0, name: `tenant=customer-number-${i}` }),
    share: 600_000,
    demand: 1_000,
    hungry: false,
    admitted: i,
    denied: 0,
    returned: 0,
    quarantined: 0,
    lent: { 'eu-west-1': [1, 100, 0] },
    gaveBack: {},
  }
}

function aRecord(change: { seq?: number; rows?: readonly RecordRow[] }): RegionRecord {
  return {
    from: 'us-east-1',
    mark: { incarnation: 1, fence: 1, seq: change.seq ?? 1 },
    policyRevision: 3,
    recovering: false,
    adopted: {},
    acks: {},
    pairs: {},
    rows: change.rows ?? [],
    usage: [],
  }
}
