import { describe, expect, it } from 'vitest'
import { UsageBook } from '../../../services/sync/usage-book.ts'
import { createLedger, type LedgerState } from '../../../shared/core/ledger/state.ts'
import type { UsageRow } from '../../../shared/core/ledger/types.ts'
import { aPolicy } from '../../support/memory-plane.ts'
import { aRecord } from '../../support/records.ts'

const NOW_MS = 100_500

const rowOf = (admitted: number, window = 100): UsageRow => ({
  limitId: 1,
  usageEpoch: 0,
  window,
  admitted,
  denied: 0,
  returned: 0,
})

function aLedger(change: Partial<LedgerState> = {}): LedgerState {
  return {
    ...createLedger('us-east-1'),
    incarnation: 1,
    fence: 1,
    nextSeq: 1,
    members: ['us-east-1', 'eu-west-1'],
    limits: new Map(aPolicy().limits.map((limit) => [limit.id, limit])),
    ...change,
  }
}

const admittedIn = (rows: readonly UsageRow[]) => rows.map((row) => row.admitted)

describe('the usage of a region', () => {
  it('goes on from what was counted when Redis lost its counts under a living daemon', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(500)], NOW_MS)
    book.goOn(aLedger(), [])
    book.countOwn(aLedger(), [rowOf(100)], NOW_MS)
    expect(admittedIn(book.take(aLedger(), -1))).toEqual([600])
  })

  it('goes on from what was counted when Redis came back with a part of its counts', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(500)], NOW_MS)
    book.goOn(aLedger(), [rowOf(450)])
    book.countOwn(aLedger(), [rowOf(550)], NOW_MS)
    expect(admittedIn(book.take(aLedger(), -1))).toEqual([600])
  })

  it('begins at nothing under a new incarnation, whatever Redis still has of the last', () => {
    const book = new UsageBook('us-east-1')
    book.beginAnew([rowOf(500)])
    const ledger = aLedger({ incarnation: 2 })
    book.countOwn(ledger, [rowOf(530)], NOW_MS)
    expect(admittedIn(book.take(ledger, -1))).toEqual([30])
  })

  it('is told again in each record that may rest on one before it changed', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(5)], NOW_MS)
    expect(admittedIn(book.take(aLedger({ nextSeq: 1 }), -1))).toEqual([5])
    expect(admittedIn(book.take(aLedger({ nextSeq: 2 }), 0))).toEqual([5])
    expect(book.take(aLedger({ nextSeq: 3 }), 1)).toEqual([])
    expect(admittedIn(book.take(aLedger({ nextSeq: 4 }), -1))).toEqual([5])
  })

  it('of peers is never published, only its own is (INV-9)', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(5)], NOW_MS)
    book.countForeign(aLedger(), aRecord({ from: 'eu-west-1', usage: [rowOf(7)] }), NOW_MS)
    expect(admittedIn(book.take(aLedger(), -1))).toEqual([5])
  })

  it('counts a peer only while it is a member, and once however often it says the same', () => {
    const book = new UsageBook('us-east-1')
    const record = aRecord({ from: 'eu-west-1', usage: [rowOf(7)] })
    book.countForeign(aLedger(), record, NOW_MS)
    book.countForeign(aLedger(), record, NOW_MS)
    book.countForeign(aLedger(), aRecord({ from: 'ap-south-1', usage: [rowOf(9)] }), NOW_MS)
    const [limit] = book.table.foreign.values()
    const counts = limit?.windows.get(100)
    expect([...(counts?.keys() ?? [])]).toEqual(['eu-west-1'])
    expect(counts?.get('eu-west-1')?.get(1)?.admitted).toBe(7)
  })
})
