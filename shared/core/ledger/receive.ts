/**
 * Hearing a peer: each record replaces what was heard of it before, as a whole.
 *
 * Records are complete and cumulative, so an older one holds nothing that the newest lacks; it is dropped.
 */

import { receiveLoans } from './borrower.ts'
import { type Draft, limitOf, track } from './draft.ts'
import { basesOf, followEpochs } from './homes.ts'
import { receiveReturns } from './lender.ts'
import { rebalance } from './rebalance.ts'
import { isNewer } from './state.ts'
import type { RegionRecord } from './types.ts'

export function receiveRecord(draft: Draft, record: RegionRecord): void {
  if (record.from === draft.self) {
    draft.alarms['own-record'] += 1
    return
  }
  if (!draft.members.includes(record.from)) return
  const known = draft.heard.get(record.from)
  if (known !== undefined && !isNewer(record.mark, known.record.mark)) return
  const rows = new Map(record.rows.map((row) => [row.id, row]))
  draft.heard.set(record.from, { record, rows, atMs: draft.nowMs })
  if (draft.epochs.size > 0) followEpochs(draft)
  receiveReturns(draft, record)
  receiveLoans(draft, record)
  for (const row of record.rows) {
    // A region that has no need of this key by itself may have what the hungry one lacks.
    if (row.hungry && !draft.keys.has(row.id) && hasHome(draft, row.id)) track(draft, row.id)
    if (draft.keys.has(row.id)) rebalance(draft, row.id)
  }
}

function hasHome(draft: Draft, id: string): boolean {
  const limit = limitOf(draft, id)
  return limit !== null && (basesOf(draft, limit).get(draft.self) ?? 0) > 0
}
