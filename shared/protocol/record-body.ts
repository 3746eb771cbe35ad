/** The bytes of a record's update, but for what each chunk's frame repeats. */
import type { RecordMark, RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import type { RecordSince } from '../core/ports.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { ByteReader, ByteWriter, MalformedBytes } from './bytes.ts'
import { OPEN_EPOCHS_MAX, type RecordUpdate } from './record.ts'
import {
  type RegionNumbers,
  readHandles,
  readRegion,
  readRows,
  readUsage,
  writeHandles,
  writeRows,
  writeUsage,
} from './record-rows.ts'
import { REGION_PATTERN } from './subjects.ts'

/** What the frame says of a record: who sent it, which it is, and what it rests on. */
export interface RecordAddress {
  readonly from: RegionId
  readonly mark: RecordMark
  readonly since: RecordSince
}

/** Longest name of a region, as REGION_PATTERN has it. */
export const REGION_BYTES_MAX = 63

/** Most regions that one record speaks of: those of the plane, and as many that were replaced. */
const NAMES_MAX = 2 * REGIONS_MAX

const RECOVERING = 1

/** Encodes an update. What the frame carries (`from`, `mark`, `since`) is left out. */
export function encodeUpdate(update: RecordUpdate): Uint8Array {
  const { header, rows, closed, usage } = update
  // Names of regions come first, but which are spoken of shows only in what follows.
  const regions = new NumberedRegions()
  const writer = new ByteWriter(256 + 24 * rows.length + 16 * usage.length)
  writer.byte(header.recovering ? RECOVERING : 0)
  writer.whole(header.policyRevision)
  writeAdopted(writer, header.adopted)
  writeAcks(writer, header.acks, regions)
  writePairs(writer, header.pairs, regions)
  writeRows(writer, rows, regions)
  writeHandles(writer, closed)
  writeUsage(writer, usage)
  const whole = new ByteWriter(writer.size + 64 * (regions.names.length + 1))
  whole.whole(regions.names.length)
  for (const name of regions.names) whole.text(name)
  whole.bytes(writer.result())
  return whole.result()
}

/**
 * Parses and checks an update; throws MalformedBytes for what this version does not write. Bytes after the end are
 * let be: room for additions that an older region may ignore.
 */
export function decodeUpdate(address: RecordAddress, body: Uint8Array): RecordUpdate {
  const reader = new ByteReader(body)
  const regions = readRegions(reader)
  const recovering = (reader.byte() & RECOVERING) !== 0
  const policyRevision = reader.whole()
  const adopted = readAdopted(reader)
  const acks = readAcks(reader, regions)
  const pairs = readPairs(reader, regions)
  const rows = readRows(reader, regions)
  if (address.since.rows < 0 && rows.some((row) => row.id === null)) {
    throw new MalformedBytes('a whole record has a row without a name')
  }
  const closed = readHandles(reader)
  const usage = readUsage(reader)
  const { from, mark, since } = address
  const header = { from, mark, policyRevision, recovering, adopted, acks, pairs }
  return { header, since, rows, closed, usage }
}

/** Numbers regions in the order in which they are first spoken of. */
class NumberedRegions implements RegionNumbers {
  readonly #numbers = new Map<RegionId, number>()

  get names(): readonly RegionId[] {
    return [...this.#numbers.keys()]
  }

  numberOf(region: RegionId): number {
    const known = this.#numbers.get(region)
    if (known !== undefined) return known
    const number = this.#numbers.size
    this.#numbers.set(region, number)
    return number
  }
}

function readRegions(reader: ByteReader): readonly RegionId[] {
  const names: RegionId[] = []
  for (let left = reader.whole(NAMES_MAX); left > 0; left--) names.push(readName(reader))
  if (new Set(names).size < names.length) throw new MalformedBytes('a region is named twice')
  return names
}

/** The name of a region, as it stands in a frame or a body. */
export function readName(reader: ByteReader): RegionId {
  const name = reader.text(REGION_BYTES_MAX)
  if (!REGION_PATTERN.test(name)) throw new MalformedBytes('a name is of no region')
  return name
}

export function writeMark(writer: ByteWriter, mark: RecordMark): void {
  writer.whole(mark.incarnation)
  writer.whole(mark.fence)
  writer.whole(mark.seq)
}

export function readMark(reader: ByteReader): RecordMark {
  return { incarnation: reader.whole(), fence: reader.whole(), seq: reader.whole() }
}

function writeAdopted(writer: ByteWriter, adopted: RegionRecord['adopted']): void {
  const entries = Object.entries(adopted)
  writer.whole(entries.length)
  for (const [limitId, epoch] of entries) {
    writer.whole(Number(limitId))
    writer.whole(epoch)
  }
}

function readAdopted(reader: ByteReader): RegionRecord['adopted'] {
  const adopted: Record<string, number> = {}
  for (let left = reader.whole(OPEN_EPOCHS_MAX); left > 0; left--) {
    adopted[String(reader.whole())] = reader.whole()
  }
  return adopted
}

function writeAcks(writer: ByteWriter, acks: RegionRecord['acks'], regions: RegionNumbers): void {
  const entries = Object.entries(acks)
  writer.whole(entries.length)
  for (const [region, mark] of entries) {
    writer.whole(regions.numberOf(region))
    writeMark(writer, mark)
  }
}

function readAcks(reader: ByteReader, regions: readonly RegionId[]): RegionRecord['acks'] {
  const acks: Record<RegionId, RecordMark> = {}
  for (let left = reader.whole(REGIONS_MAX); left > 0; left--) {
    acks[readRegion(reader, regions)] = readMark(reader)
  }
  return acks
}

function writePairs(
  writer: ByteWriter,
  pairs: RegionRecord['pairs'],
  regions: RegionNumbers,
): void {
  const entries = Object.entries(pairs)
  writer.whole(entries.length)
  for (const [region, { lend, borrow }] of entries) {
    writer.whole(regions.numberOf(region))
    for (const figure of [...lend, ...borrow]) writer.whole(figure)
  }
}

function readPairs(reader: ByteReader, regions: readonly RegionId[]): RegionRecord['pairs'] {
  const pairs: Record<RegionId, RegionRecord['pairs'][RegionId]> = {}
  for (let left = reader.whole(REGIONS_MAX); left > 0; left--) {
    pairs[readRegion(reader, regions)] = {
      lend: [reader.whole(), reader.whole()],
      borrow: [reader.whole(), reader.whole(), reader.whole(1) === 1 ? 1 : 0],
    }
  }
  return pairs
}
