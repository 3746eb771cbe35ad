/** The bytes of a record's rows and usage. */

import { assert } from '../core/assert.ts'
import { counterId, parseCounterId, SLOT_GROUPS } from '../core/counter-id.ts'
import type { CounterId } from '../core/descriptor.ts'
import type { RecordRow, UsageRow } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import { POOL_UNITS, REGIONS_MAX } from '../core/units.ts'
import { type ByteReader, type ByteWriter, MalformedBytes } from './bytes.ts'
import { ROWS_MAX, type RowChange, type RowPosition, USAGE_ROWS_MAX } from './record.ts'

/** Longest name of a counter in bytes: COUNTER_NAME_LENGTH_MAX characters of at most three, and room to spare. */
const NAME_BYTES_MAX = 512

/** What follows of a row, and what is so often the case that a bit of its own saves a byte. */
const NAMED = 1
const POSITION = 2
const DEMAND = 4
const COUNTS = 8
const HUNGRY = 16
const LENT = 32
const GAVE_BACK = 64
const QUARANTINED = 128

/** Regions by the number under which a message speaks of them. */
export interface RegionNumbers {
  numberOf(region: RegionId): number
}

export function writeRows(
  writer: ByteWriter,
  rows: readonly RowChange[],
  regions: RegionNumbers,
): void {
  writer.whole(rows.length)
  // Rows come in the order of their handles, so that the step from one to the next is small.
  let last = -1
  for (const row of rows) {
    assert(row.handle > last, 'rows are in the order of their handles')
    writer.whole(row.handle - last - 1)
    last = row.handle
    writeRow(writer, row, regions)
  }
}

export function readRows(reader: ByteReader, regions: readonly RegionId[]): readonly RowChange[] {
  const rows: RowChange[] = []
  let handle = -1
  for (let left = reader.whole(ROWS_MAX); left > 0; left--) {
    handle = nextHandle(reader, handle)
    rows.push(readRow(reader, handle, regions))
  }
  return rows
}

/** Handles in rising order. */
export function writeHandles(writer: ByteWriter, handles: readonly number[]): void {
  writer.whole(handles.length)
  let last = -1
  for (const handle of handles) {
    assert(handle > last, 'handles rise')
    writer.whole(handle - last - 1)
    last = handle
  }
}

export function readHandles(reader: ByteReader): readonly number[] {
  const handles: number[] = []
  let handle = -1
  for (let left = reader.whole(ROWS_MAX); left > 0; left--) {
    handle = nextHandle(reader, handle)
    handles.push(handle)
  }
  return handles
}

/** Usage rows of one limit follow one another as a rule, so each repeats only what differs. */
export function writeUsage(writer: ByteWriter, rows: readonly UsageRow[]): void {
  writer.whole(rows.length)
  let last: UsageRow | undefined
  for (const row of rows) {
    const isSame = row.limitId === last?.limitId && row.usageEpoch === last.usageEpoch
    writer.byte(isSame ? 1 : 0)
    if (!isSame) {
      writer.whole(row.limitId)
      writer.whole(row.usageEpoch)
    }
    writer.whole(row.window)
    writer.whole(row.admitted)
    writer.whole(row.denied)
    writer.whole(row.returned)
    last = row
  }
}

export function readUsage(reader: ByteReader): readonly UsageRow[] {
  const rows: UsageRow[] = []
  let [limitId, usageEpoch] = [0, 0]
  for (let left = reader.whole(USAGE_ROWS_MAX); left > 0; left--) {
    if (reader.byte() === 0) {
      limitId = reader.whole()
      usageEpoch = reader.whole()
    }
    const [window, admitted] = [reader.whole(), reader.whole()]
    const [denied, returned] = [reader.whole(), reader.whole()]
    rows.push({ limitId, usageEpoch, window, admitted, denied, returned })
  }
  return rows
}

function nextHandle(reader: ByteReader, last: number): number {
  const handle = last + 1 + reader.whole()
  if (!Number.isSafeInteger(handle)) throw new MalformedBytes('a handle is too large')
  return handle
}

function writeRow(writer: ByteWriter, row: RowChange, regions: RegionNumbers): void {
  const { id, position, demand, counts } = row
  writer.byte(partsOf(row))
  if (id !== null) writeId(writer, id)
  if (position !== null) writePosition(writer, position, regions)
  if (demand !== null) writer.whole(demand)
  if (counts !== null) {
    writer.whole(counts.admitted)
    writer.whole(counts.denied)
    writer.whole(counts.returned)
  }
}

function partsOf({ id, position, demand, counts }: RowChange): number {
  let parts = id === null ? 0 : NAMED
  if (demand !== null) parts |= DEMAND
  if (counts !== null) parts |= COUNTS
  if (position === null) return parts
  parts |= POSITION
  if (position.hungry) parts |= HUNGRY
  if (Object.keys(position.lent).length > 0) parts |= LENT
  if (Object.keys(position.gaveBack).length > 0) parts |= GAVE_BACK
  if (position.quarantined > 0) parts |= QUARANTINED
  return parts
}

function readRow(reader: ByteReader, handle: number, regions: readonly RegionId[]): RowChange {
  const parts = reader.byte()
  const has = (part: number): boolean => (parts & part) !== 0
  if (has(NAMED) && !(has(POSITION) && has(DEMAND) && has(COUNTS))) {
    throw new MalformedBytes('a row that is told of first lacks a part')
  }
  return {
    handle,
    id: has(NAMED) ? readId(reader) : null,
    position: has(POSITION) ? readPosition(reader, has, regions) : null,
    demand: has(DEMAND) ? reader.whole() : null,
    counts: has(COUNTS)
      ? { admitted: reader.whole(), denied: reader.whole(), returned: reader.whole() }
      : null,
  }
}

function writePosition(writer: ByteWriter, position: RowPosition, regions: RegionNumbers): void {
  writer.whole(position.share)
  if (position.quarantined > 0) writer.whole(position.quarantined)
  for (const loans of [position.lent, position.gaveBack]) {
    const entries = Object.entries(loans)
    if (entries.length > 0) writer.whole(entries.length)
    for (const [region, figures] of entries) {
      writer.whole(regions.numberOf(region))
      for (const figure of figures) writer.whole(figure)
    }
  }
}

function readPosition(
  reader: ByteReader,
  has: (part: number) => boolean,
  regions: readonly RegionId[],
): RowPosition {
  const share = reader.whole(POOL_UNITS)
  const quarantined = has(QUARANTINED) ? reader.whole(POOL_UNITS) : 0
  const lent: Record<RegionId, RecordRow['lent'][RegionId]> = {}
  for (let left = has(LENT) ? reader.whole(REGIONS_MAX) : 0; left > 0; left--) {
    lent[readRegion(reader, regions)] = [reader.whole(), reader.whole(), reader.whole()]
  }
  const gaveBack: Record<RegionId, RecordRow['gaveBack'][RegionId]> = {}
  for (let left = has(GAVE_BACK) ? reader.whole(REGIONS_MAX) : 0; left > 0; left--) {
    gaveBack[readRegion(reader, regions)] = [reader.whole(), reader.whole()]
  }
  return { share, hungry: has(HUNGRY), quarantined, lent, gaveBack }
}

export function readRegion(reader: ByteReader, regions: readonly RegionId[]): RegionId {
  const region = regions[reader.whole()]
  if (region === undefined) throw new MalformedBytes('a region has no name')
  return region
}

function writeId(writer: ByteWriter, id: CounterId): void {
  const parts = parseCounterId(id)
  assert(parts !== null, 'a row is of a counter')
  writer.byte(parts.group)
  writer.whole(parts.limitId)
  writer.whole(parts.usageEpoch)
  writer.text(parts.name)
}

function readId(reader: ByteReader): CounterId {
  const group = reader.byte()
  if (group >= SLOT_GROUPS) throw new MalformedBytes('a key is of no slot group')
  const [limitId, usageEpoch] = [reader.whole(), reader.whole()]
  return counterId({ group, limitId, usageEpoch, name: reader.text(NAME_BYTES_MAX) })
}
