import { isNewer } from '../core/ledger/state.ts'
import type { RecordMark, RegionRecord } from '../core/ledger/types.ts'
import type { RegionId } from '../core/policy.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { joinChunks, type RecordChunk, ROWS_MAX, USAGE_ROWS_MAX } from './record.ts'

/**
 * How long a torn record keeps older marks of its sender out. A sender whose marks went back (it lost its
 * incarnation and got a lower one) must be heard again; longer than the chunks of one record ever take.
 */
const TORN_AFTER_MS = 5_000

interface Pending {
  readonly mark: RecordMark
  readonly startedMs: number
  readonly chunks: (RecordChunk | undefined)[]
  missing: number
  rows: number
  usage: number
}

/**
 * Puts chunks together to whole records.
 *
 * Holds at most one unfinished record for each of REGIONS_MAX senders. A chunk of a newer record drops the
 * unfinished one whole; chunks of an older one, and repeated ones, are ignored. Order does not matter.
 */
export class RecordAssembly {
  readonly #pending = new Map<RegionId, Pending>()

  /** The record that `chunk` completes, or null. */
  add(chunk: RecordChunk, nowMs: number): RegionRecord | null {
    if (chunk.count === 1) return joinChunks([chunk])
    const pending = this.#pendingOf(chunk, nowMs)
    if (pending === null || pending.chunks[chunk.index] !== undefined) return null
    pending.chunks[chunk.index] = chunk
    pending.missing--
    pending.rows += chunk.rows.length
    pending.usage += chunk.usage.length
    if (pending.rows > ROWS_MAX || pending.usage > USAGE_ROWS_MAX) {
      this.#pending.delete(chunk.from)
      return null
    }
    if (pending.missing > 0) return null
    this.#pending.delete(chunk.from)
    return joinChunks(pending.chunks.filter((part) => part !== undefined))
  }

  #pendingOf(chunk: RecordChunk, nowMs: number): Pending | null {
    const present = this.#pending.get(chunk.from)
    if (present !== undefined) {
      if (isSameRecord(chunk, present)) return present
      const isStale = nowMs - present.startedMs >= TORN_AFTER_MS
      if (!isNewer(chunk.mark, present.mark) && !isStale) return null
    } else if (this.#pending.size >= REGIONS_MAX) return null
    const fresh: Pending = {
      mark: chunk.mark,
      startedMs: nowMs,
      chunks: Array.from({ length: chunk.count }),
      missing: chunk.count,
      rows: 0,
      usage: 0,
    }
    this.#pending.set(chunk.from, fresh)
    return fresh
  }
}

function isSameRecord(chunk: RecordChunk, pending: Pending): boolean {
  const { mark } = pending
  return (
    !isNewer(chunk.mark, mark) &&
    !isNewer(mark, chunk.mark) &&
    chunk.count === pending.chunks.length
  )
}
