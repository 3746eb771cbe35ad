/**
 * Hearing a peer: each record replaces what was heard of it before, as a whole.
 *
 * Records are complete and cumulative, so an older one holds nothing that the newest lacks; it is dropped.
 */

import type { CounterId } from '../descriptor.ts'
import { POOL_UNITS } from '../units.ts'
import { receiveLoans } from './borrower.ts'
import { type Draft, limitOf, pairOf, raiseAlarm, track } from './draft.ts'
import { basesMax, basesOf, followEpochs } from './homes.ts'
import { receiveReturns } from './lender.ts'
import { rebalanceSoon } from './rebalance.ts'
import { type Heard, isNewer } from './state.ts'
import type { RecordRow, RegionRecord } from './types.ts'

export function receiveRecord(draft: Draft, record: RegionRecord): void {
  if (record.from === draft.self) {
    raiseAlarm(draft, record.from, 'own-record')
    return
  }
  if (!draft.members.includes(record.from)) return
  const known = draft.heard.get(record.from)
  if (known !== undefined && !isNewer(record.mark, known.record.mark)) return
  // Of a life that is over: this region has said that it uses nothing of it any more.
  if (record.mark.incarnation < pairOf(draft, record.from).borrow.incarnation) return
  const rows = soundRows(draft, record, known)
  const judgedBy = draft.policyRevision
  draft.heard.set(record.from, { record, rows, judgedBy, atMs: draft.nowMs })
  draft.reach = null
  if (draft.epochs.size > 0) followEpochs(draft)
  receiveReturns(draft, record)
  receiveLoans(draft, record)
  const followed: CounterId[] = []
  for (const row of rows.values()) {
    // What did not change and wants nothing can move nothing, either; the tick looks at all.
    const isNews = row.hungry || known?.rows.get(row.id) !== row
    if (isNews && isFollowed(draft, row)) followed.push(row.id)
  }
  rebalanceSoon(draft, followed)
}

/** True for tracked keys. One that has no need of it in this region may have what the hungry one lacks. */
function isFollowed(draft: Draft, row: RecordRow): boolean {
  if (row.hungry && !draft.keys.has(row.id) && hasHome(draft, row.id)) track(draft, row.id)
  return draft.keys.has(row.id)
}

/** The rows of a record that make sense, by key. Those that stand as before under the same policy are not judged again. */
function soundRows(draft: Draft, record: RegionRecord, known: Heard | undefined): Heard['rows'] {
  const isSamePolicy =
    known?.record.policyRevision === record.policyRevision &&
    known.judgedBy === draft.policyRevision
  const rows = new Map<CounterId, RecordRow>()
  for (const row of record.rows) {
    const isKnown = isSamePolicy && known.rows.get(row.id) === row
    if (isKnown || isPlausible(draft, record, row)) rows.set(row.id, row)
  }
  return rows
}

/**
 * False for what an honest ledger never says, and for keys that count for no limit known here. The whole row is
 * then ignored: a part of it would be as doubtful.
 */
function isPlausible(draft: Draft, record: RegionRecord, row: RecordRow): boolean {
  const limit = limitOf(draft, row.id)
  if (limit === null) return false
  if (row.share > POOL_UNITS || row.quarantined > POOL_UNITS) {
    raiseAlarm(draft, record.from, 'units-above-pool')
    return false
  }
  const loans = Object.values(row.lent)
  const out = loans.reduce((sum, [, lent, returned]) => sum + lent - returned, 0)
  const isSound = loans.every(([, lent, returned]) => returned <= lent)
  if (isSound && out <= basesMax(limit, record.from)) return true
  // Under another policy than this region's a lender may rightly have a larger base than is known here.
  if (record.policyRevision === draft.policyRevision) {
    raiseAlarm(draft, record.from, 'lent-above-base')
  }
  return false
}

function hasHome(draft: Draft, id: string): boolean {
  const limit = limitOf(draft, id)
  return limit !== null && (basesOf(draft, limit).get(draft.self) ?? 0) > 0
}
