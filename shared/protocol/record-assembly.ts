import { isNewer } from '../core/ledger/state.ts'
import type { RegionId } from '../core/policy.ts'
import { REGIONS_MAX } from '../core/units.ts'
import { RECORD_BYTES_MAX } from './record.ts'
import type { RecordAddress } from './record-body.ts'
import type { RecordChunk } from './record-frame.ts'

/**
 * How long a torn record keeps older marks of its sender out. A sender whose marks went back (it lost its
 * incarnation and got a lower one) must be heard again; longer than the chunks of one record ever take.
 */
const TORN_AFTER_MS = 5_000

/** All bytes of one record's update. */
export interface EncodedRecord extends RecordAddress {
  readonly body: Uint8Array
}

interface Pending extends RecordAddress {
  readonly startedMs: number
  readonly parts: (Uint8Array | undefined)[]
  missing: number
  bytes: number
}

/**
 * Puts chunks together to whole records.
 *
 * Holds at most one unfinished record of at most RECORD_BYTES_MAX for each of REGIONS_MAX senders. A chunk of a newer
 * record drops the unfinished one whole; chunks of an older one, and repeated ones, are ignored. Order does not
 * matter.
 */
export class RecordAssembly {
  readonly #pending = new Map<RegionId, Pending>()

  /** The record that `chunk` completes, or null. */
  add(chunk: RecordChunk, nowMs: number): EncodedRecord | null {
    const { from, mark, since, index, count, part } = chunk
    if (count === 1) return { from, mark, since, body: part }
    const pending = this.#pendingOf(chunk, nowMs)
    if (pending === null || pending.parts[index] !== undefined) return null
    pending.parts[index] = part
    pending.missing--
    pending.bytes += part.byteLength
    if (pending.bytes > RECORD_BYTES_MAX) this.#pending.delete(from)
    if (pending.missing > 0 || pending.bytes > RECORD_BYTES_MAX) return null
    this.#pending.delete(from)
    const body = Buffer.concat(pending.parts.filter((one) => one !== undefined))
    return { from, mark: pending.mark, since: pending.since, body }
  }

  #pendingOf(chunk: RecordChunk, nowMs: number): Pending | null {
    const present = this.#pending.get(chunk.from)
    if (present !== undefined) {
      if (isSameRecord(chunk, present)) return present
      const isStale = nowMs - present.startedMs >= TORN_AFTER_MS
      if (!isNewer(chunk.mark, present.mark) && !isStale) return null
    } else if (this.#pending.size >= REGIONS_MAX) return null
    const fresh: Pending = {
      from: chunk.from,
      mark: chunk.mark,
      since: chunk.since,
      startedMs: nowMs,
      parts: Array.from({ length: chunk.count }),
      missing: chunk.count,
      bytes: 0,
    }
    this.#pending.set(chunk.from, fresh)
    return fresh
  }
}

/** One record may be sent twice in different codings; their chunks do not fit together. */
function isSameRecord(chunk: RecordChunk, pending: Pending): boolean {
  const { mark, since } = pending
  return (
    !isNewer(chunk.mark, mark) &&
    !isNewer(mark, chunk.mark) &&
    chunk.since.rows === since.rows &&
    chunk.since.usage === since.usage &&
    chunk.count === pending.parts.length
  )
}
