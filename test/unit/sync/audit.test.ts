import { describe, expect, it } from 'vitest'
import { auditShares } from '../../../services/sync/audit.ts'
import { createLedger, type LedgerState } from '../../../shared/core/ledger/state.ts'
import type { RegionRecord } from '../../../shared/core/ledger/types.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { aRecord, recordRows } from '../../support/records.ts'

const mark = (seq: number) => ({ incarnation: 1, fence: 1, seq })

function ledgerWith(
  heard: readonly RegionRecord[],
  previousBase: null | object = null,
): LedgerState {
  const [limit] = aPolicy({ id: 7 }).limits
  if (limit === undefined) throw new Error('a policy has a limit')
  const base = { 'us-east-1': 600_000, 'eu-west-1': 400_000 }
  return {
    ...createLedger('us-east-1'),
    limits: new Map([[7, { ...limit, base, previousBase: previousBase === null ? null : base }]]),
    heard: new Map(
      heard.map((record) => [
        record.from,
        { record, rows: new Map(record.rows.map((row) => [row.id, row])), judgedBy: 1, atMs: 0 },
      ]),
    ),
  }
}

const rowOf = (share: number) => recordRows(1).map((row) => ({ ...row, share }))
const eu = (share: number, seq = 1, ackedUs = 1) =>
  aRecord({ from: 'eu-west-1', seq, rows: rowOf(share), acks: { 'us-east-1': mark(ackedUs) } })
const us = (share: number, seq = 1, ackedEu = 1) =>
  aRecord({ seq, rows: rowOf(share), acks: { 'eu-west-1': mark(ackedEu) } })

describe('the self-audit', () => {
  it('shows the largest sum of shares of one key over the limit', () => {
    expect(auditShares(ledgerWith([eu(400_000)]), us(600_000), 0)).toBe(1)
    expect(auditShares(ledgerWith([eu(500_000)]), us(600_000), 0)).toBeCloseTo(1.1)
  })

  it('says nothing while one record speaks of a newer one than is held', () => {
    expect(auditShares(ledgerWith([eu(500_000, 2, 2)]), us(600_000, 1), 0)).toBeNull()
  })

  it('counts a region without a row for the key with its base part', () => {
    const cold = aRecord({ from: 'eu-west-1' })
    expect(auditShares(ledgerWith([cold]), us(700_000), 0)).toBeCloseTo(1.1)
  })

  it('leaves out silent regions and limits with an open epoch', () => {
    expect(auditShares(ledgerWith([eu(500_000)]), us(600_000), 5_000)).toBeCloseTo(0.6)
    expect(auditShares(ledgerWith([eu(500_000)], {}), us(600_000), 0)).toBe(0)
  })
})
