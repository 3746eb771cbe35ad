/**
 * What travels of a region's records.
 *
 * A record is one atomic snapshot of a region, and the ledger sees nothing but whole ones. Most of it is the same as
 * a second ago, though, so a message is an *update*: the header in full, and of the rows what changed since a record
 * that the listeners hold (`since`). Figures are absolute and closed rows are named, so an update makes the same
 * record of every record from `since` on: one that is lost, late or doubled costs nothing. A listener that holds
 * none of them asks for a whole record, and one is sent every WHOLE_EVERY_MS anyway.
 *
 * A row has a handle, a small number that the sender gives it when it first tells of the row and never again, so
 * that the name of a key travels once. `RecordWriter` makes updates, `applyUpdate` makes records of them;
 * `record-body` and `record-frame` are their bytes.
 */
import type { CounterId } from '../core/descriptor.ts'
import type { RecordRow, RegionRecord, UsageRow } from '../core/ledger/types.ts'
import type { RecordSince } from '../core/ports.ts'

/** Version of this wire format. A newer one is refused, not guessed at. */
export const RECORD_VERSION = 1

/**
 * Largest message in bytes. NATS refuses messages above `max_payload`, 1 MB by default; half of it leaves room for
 * the headers of gateways. A server with a lower limit gets smaller chunks.
 */
export const CHUNK_BYTES_MAX = 512 * 1024

/** Most chunks of one record: enough for a server that takes no more than 64 kB at once. */
export const CHUNKS_MAX = 128

/** Largest record, put together: about twice what ROWS_MAX rows of usual size need. Bounds a receiver's memory. */
export const RECORD_BYTES_MAX = 8 * 1024 * 1024

/** Most rows of a record: the hot sets of all slot groups together. */
export const ROWS_MAX = 65_536

/** Most usage rows of a record: all kept windows of a thousand limits. A sender with more leaves old ones out. */
export const USAGE_ROWS_MAX = 65_536

/** Most limits with an open epoch that one record speaks of. */
export const OPEN_EPOCHS_MAX = 4_096

/** A whole record is sent this often: a listener that missed what it did not notice is put right by it. */
export const WHOLE_EVERY_MS = 15_000

/** Least time between whole records that were asked for, and between two questions: many ask at the same time. */
export const ASK_SPACING_MS = 1_000

export type RecordHeader = Omit<RegionRecord, 'rows' | 'usage'>

/** What moves with loans and hunger. */
export type RowPosition = Pick<RecordRow, 'share' | 'hungry' | 'quarantined' | 'lent' | 'gaveBack'>

export type RowCounts = Pick<RecordRow, 'admitted' | 'denied' | 'returned'>

/** What changed of one row; null for what did not. A row that listeners may not know has its id and all parts. */
export interface RowChange {
  readonly handle: number
  readonly id: CounterId | null
  readonly position: RowPosition | null
  readonly demand: number | null
  readonly counts: RowCounts | null
}

export interface RecordUpdate {
  readonly header: RecordHeader
  readonly since: RecordSince
  readonly rows: readonly RowChange[]
  /** Handles of rows that the record lacks and one since `since` may have had. */
  readonly closed: readonly number[]
  readonly usage: readonly UsageRow[]
}

/** True for an update that makes a record of nothing. */
export function isWhole({ since }: Pick<RecordUpdate, 'since'>): boolean {
  return since.rows < 0
}
