import { describe, expect, it } from 'vitest'
import { UsageBook } from '../../../services/sync/usage-book.ts'
import { createLedger, type LedgerState } from '../../../shared/core/ledger/state.ts'
import type { RegionRecord, UsageRow } from '../../../shared/core/ledger/types.ts'
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

const heardFrom = (record: RegionRecord): LedgerState['heard'] =>
  new Map([[record.from, { record, rows: new Map(), atMs: NOW_MS }]])

const admittedIn = (rows: readonly UsageRow[]) => rows.map((row) => row.admitted)

describe('the usage of a region', () => {
  it('goes on from what was counted when Redis lost its counts under a living daemon', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(500)], NOW_MS)
    book.goOn(aLedger(), [])
    book.countOwn(aLedger(), [rowOf(100)], NOW_MS)
    expect(admittedIn(book.take(aLedger(), NOW_MS))).toEqual([600])
  })

  it('goes on from what was counted when Redis came back with a part of its counts', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(500)], NOW_MS)
    book.goOn(aLedger(), [rowOf(450)])
    book.countOwn(aLedger(), [rowOf(550)], NOW_MS)
    expect(admittedIn(book.take(aLedger(), NOW_MS))).toEqual([600])
  })

  it('begins at nothing under a new incarnation, whatever Redis still has of the last', () => {
    const book = new UsageBook('us-east-1')
    book.beginAnew([rowOf(500)])
    const ledger = aLedger({ incarnation: 2 })
    book.countOwn(ledger, [rowOf(530)], NOW_MS)
    expect(admittedIn(book.take(ledger, NOW_MS))).toEqual([30])
  })

  it('is told again until every peer in reach has processed it', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(5)], NOW_MS)
    const behind = heardFrom(aRecord({ from: 'eu-west-1' }))
    expect(admittedIn(book.take(aLedger({ nextSeq: 1, heard: behind }), NOW_MS))).toEqual([5])
    expect(admittedIn(book.take(aLedger({ nextSeq: 2, heard: behind }), NOW_MS))).toEqual([5])
    const acks = { 'us-east-1': { incarnation: 1, fence: 1, seq: 2 } }
    const caughtUp = heardFrom(aRecord({ from: 'eu-west-1', acks }))
    expect(book.take(aLedger({ nextSeq: 3, heard: caughtUp }), NOW_MS)).toEqual([])
  })

  it('is told in full to a daemon that took over, which has heard nothing of it', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(5)], NOW_MS)
    const acks = (seq: number) => ({ 'us-east-1': { incarnation: 1, fence: 1, seq } })
    const eu = (fence: number, seq: number) =>
      heardFrom(
        aRecord({
          from: 'eu-west-1',
          mark: { incarnation: 1, fence, seq: 1 },
          acks: acks(seq),
        }),
      )
    book.take(aLedger({ nextSeq: 1, heard: eu(1, 0) }), NOW_MS)
    expect(book.take(aLedger({ nextSeq: 2, heard: eu(1, 1) }), NOW_MS)).toEqual([])
    expect(admittedIn(book.take(aLedger({ nextSeq: 3, heard: eu(2, 2) }), NOW_MS))).toEqual([5])
    expect(book.take(aLedger({ nextSeq: 4, heard: eu(2, 3) }), NOW_MS)).toEqual([])
  })

  it('is told in full now and then, for listeners that acknowledge nothing', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(5)], NOW_MS)
    const told = Array.from({ length: 40 }, (_, i) =>
      admittedIn(book.take(aLedger({ nextSeq: i + 1 }), NOW_MS)),
    )
    expect(told.filter((rows) => rows.length > 0).length).toBe(3)
  })

  it('of peers is never published, only its own is (INV-9)', () => {
    const book = new UsageBook('us-east-1')
    book.countOwn(aLedger(), [rowOf(5)], NOW_MS)
    book.countForeign(aLedger(), aRecord({ from: 'eu-west-1', usage: [rowOf(7)] }), NOW_MS)
    expect(admittedIn(book.take(aLedger(), NOW_MS))).toEqual([5])
  })

  it('counts a peer only while it is a member, and once however often it says the same', () => {
    const book = new UsageBook('us-east-1')
    const record = aRecord({ from: 'eu-west-1', usage: [rowOf(7)] })
    book.countForeign(aLedger(), record, NOW_MS)
    book.countForeign(aLedger(), record, NOW_MS)
    book.countForeign(aLedger(), aRecord({ from: 'ap-south-1', usage: [rowOf(9)] }), NOW_MS)
    const [window] = book.table.foreign.values()
    expect([...(window?.counts.keys() ?? [])]).toEqual(['eu-west-1'])
    expect(window?.counts.get('eu-west-1')?.get(1)?.admitted).toBe(7)
  })
})
