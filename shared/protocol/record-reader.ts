import { isNewer } from '../core/ledger/state.ts'
import type { RecordRow, RegionRecord } from '../core/ledger/types.ts'
import { isWhole, type RecordUpdate, ROWS_MAX, type RowChange } from './record.ts'

/** The newest record of one sender that a listener has, with what the next update speaks of. */
export interface HeldRecord {
  readonly record: RegionRecord
  readonly rows: ReadonlyMap<number, RecordRow>
}

export type Applied =
  | { readonly kind: 'record'; readonly held: HeldRecord }
  /** Not newer than what is held. */
  | { readonly kind: 'old' }
  /** Rests on a record that this listener has not: it must ask for a whole one. */
  | { readonly kind: 'gap' }

/**
 * The record that an update makes of the one held: exactly the one that the sender published, or none. Rows that did
 * not change are the same objects as before, so that who compares them need not look inside.
 */
export function applyUpdate(held: HeldRecord | null, update: RecordUpdate): Applied {
  if (held !== null && !isNewer(update.header.mark, held.record.mark)) return { kind: 'old' }
  const before = isWhole(update) ? new Map<number, RecordRow>() : baseOf(held, update)
  if (before === null) return { kind: 'gap' }
  const rows = new Map(before)
  for (const handle of update.closed) rows.delete(handle)
  for (const change of update.rows) {
    const row = changedRow(rows.get(change.handle), change)
    if (row === null) return { kind: 'gap' }
    rows.set(change.handle, row)
  }
  if (rows.size > ROWS_MAX) return { kind: 'gap' }
  const record = { ...update.header, rows: [...rows.values()], usage: update.usage }
  return { kind: 'record', held: { record, rows } }
}

/** True when the usage of the update leaves out what this listener may not have. */
export function lacksUsage(held: HeldRecord | null, { header, since }: RecordUpdate): boolean {
  if (since.usage < 0) return false
  return held === null || !isSameSession(held, header.mark) || held.record.mark.seq < since.usage
}

function baseOf(
  held: HeldRecord | null,
  { header, since }: RecordUpdate,
): ReadonlyMap<number, RecordRow> | null {
  if (held === null || !isSameSession(held, header.mark)) return null
  return held.record.mark.seq >= since.rows ? held.rows : null
}

function isSameSession({ record }: HeldRecord, mark: RegionRecord['mark']): boolean {
  return record.mark.incarnation === mark.incarnation && record.mark.fence === mark.fence
}

/** A row that was closed and is told of again has another handle, so what is known under this one is this row. */
function changedRow(known: RecordRow | undefined, change: RowChange): RecordRow | null {
  const id = change.id ?? known?.id
  const position = change.position ?? known
  const demand = change.demand ?? known?.demand
  const counts = change.counts ?? known
  if (id === undefined || position === undefined || demand === undefined || counts === undefined) {
    return null
  }
  return {
    id,
    share: position.share,
    demand,
    hungry: position.hungry,
    admitted: counts.admitted,
    denied: counts.denied,
    returned: counts.returned,
    quarantined: position.quarantined,
    lent: position.lent,
    gaveBack: position.gaveBack,
  }
}
