import { assert } from '../core/assert.ts'
import type { CounterId } from '../core/descriptor.ts'
import type { RecordMark, RecordRow, RegionRecord } from '../core/ledger/types.ts'
import type { RecordSince } from '../core/ports.ts'
import { type RecordUpdate, ROWS_MAX, type RowChange } from './record.ts'

/** One row as it was last told, and the records in which each part of it last changed. */
interface Told {
  readonly handle: number
  readonly openedSeq: number
  row: RecordRow
  positionSeq: number
  demandSeq: number
  countsSeq: number
  seenSeq: number
}

/**
 * The sender's side: makes an update of each record, by what it told before.
 *
 * Remembers the rows of the last record, and the rows that closed since `#keptSeq`. Records of another session
 * (incarnation and fence) begin afresh: their listeners hold nothing of it.
 */
export class RecordWriter {
  #session: Pick<RecordMark, 'incarnation' | 'fence'> = { incarnation: -1, fence: -1 }
  #told = new Map<CounterId, Told>()
  /** Handle to the sequence number of the first record without it. */
  #closed = new Map<number, number>()
  #nextHandle = 0
  #lastSeq = -1
  /** An update can rest on records from this one on. */
  #keptSeq = Number.POSITIVE_INFINITY
  #wholeSeq = -1

  /**
   * The update that makes `record` of any record of this session since `since.rows`; a whole one where that is -1 or
   * too long ago. `record.usage` holds what changed since `since.usage`.
   */
  next(record: RegionRecord, since: RecordSince): RecordUpdate {
    const { rows, usage, ...header } = record
    this.#begin(record.mark)
    this.#note(rows, record.mark.seq)
    const isPossible = since.rows >= this.#keptSeq && since.rows < record.mark.seq
    if (!isPossible) this.#keepSince(record.mark.seq)
    const base = isPossible ? since.rows : -1
    return {
      header,
      since: { rows: base, usage: since.usage },
      rows: this.#changesSince(base),
      closed: isPossible ? this.#closedSince(base) : [],
      usage,
    }
  }

  #begin({ incarnation, fence, seq }: RecordMark): void {
    const isSame = this.#session.incarnation === incarnation && this.#session.fence === fence
    if (!isSame || seq <= this.#lastSeq) {
      this.#session = { incarnation, fence }
      this.#told = new Map()
      this.#closed = new Map()
      this.#nextHandle = 0
      this.#wholeSeq = -1
      this.#keptSeq = seq
    }
    this.#lastSeq = seq
  }

  #note(rows: readonly RecordRow[], seq: number): void {
    for (const row of rows) {
      const told = this.#told.get(row.id)
      if (told === undefined) this.#open(row, seq)
      else {
        if (told.row !== row) noteChanges(told, row, seq)
        told.seenSeq = seq
      }
    }
    assert(this.#told.size >= rows.length, 'each row of a record is of another key')
    if (this.#told.size > rows.length) this.#close(seq)
    if (this.#closed.size <= ROWS_MAX) return
    this.#closed.clear()
    this.#keptSeq = seq
  }

  #open(row: RecordRow, seq: number): void {
    this.#told.set(row.id, {
      handle: this.#nextHandle++,
      openedSeq: seq,
      row,
      positionSeq: seq,
      demandSeq: seq,
      countsSeq: seq,
      seenSeq: seq,
    })
  }

  #close(seq: number): void {
    for (const [id, told] of this.#told) {
      if (told.seenSeq === seq) continue
      this.#told.delete(id)
      this.#closed.set(told.handle, seq)
    }
  }

  /** Forgets what closed before the last whole record but one: nobody rests on anything older for long. */
  #keepSince(wholeSeq: number): void {
    this.#keptSeq = Math.max(this.#keptSeq, this.#wholeSeq)
    this.#wholeSeq = wholeSeq
    for (const [handle, seq] of this.#closed) if (seq <= this.#keptSeq) this.#closed.delete(handle)
  }

  #changesSince(base: number): readonly RowChange[] {
    const changes: RowChange[] = []
    for (const told of this.#told.values()) {
      const isNew = told.openedSeq > base
      const hasPosition = told.positionSeq > base
      const hasDemand = told.demandSeq > base
      const hasCounts = told.countsSeq > base
      if (!hasPosition && !hasDemand && !hasCounts) continue
      const { row } = told
      changes.push({
        handle: told.handle,
        id: isNew ? row.id : null,
        position: hasPosition ? row : null,
        demand: hasDemand ? row.demand : null,
        counts: hasCounts ? row : null,
      })
    }
    return changes
  }

  #closedSince(base: number): readonly number[] {
    const handles: number[] = []
    for (const [handle, seq] of this.#closed) if (seq > base) handles.push(handle)
    return handles.sort((one, other) => one - other)
  }
}

function noteChanges(told: Told, row: RecordRow, seq: number): void {
  const old = told.row
  if (!isSamePosition(old, row)) told.positionSeq = seq
  if (old.demand !== row.demand) told.demandSeq = seq
  const isSameCounts =
    old.admitted === row.admitted && old.denied === row.denied && old.returned === row.returned
  if (!isSameCounts) told.countsSeq = seq
  told.row = row
}

function isSamePosition(one: RecordRow, other: RecordRow): boolean {
  return (
    one.share === other.share &&
    one.hungry === other.hungry &&
    one.quarantined === other.quarantined &&
    isSameLoans(one.lent, other.lent) &&
    isSameLoans(one.gaveBack, other.gaveBack)
  )
}

function isSameLoans(
  one: Readonly<Record<string, readonly number[]>>,
  other: Readonly<Record<string, readonly number[]>>,
): boolean {
  if (one === other) return true
  const regions = Object.keys(one)
  if (regions.length !== Object.keys(other).length) return false
  return regions.every((region) => {
    const [figures, others] = [one[region], other[region]]
    return figures !== undefined && others !== undefined && isSameList(figures, others)
  })
}

function isSameList(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((figure, index) => figure === other[index])
}
