import { describe, expect, it } from 'vitest'
import { LOAN_TTL_MS, TRACKED_KEYS_MAX } from '../../../shared/core/ledger/constants.ts'
import { isNewer } from '../../../shared/core/ledger/state.ts'
import type { RecordRow, RegionRecord } from '../../../shared/core/ledger/types.ts'
import { shareOf } from '../../../shared/core/ledger/views.ts'
import { Bench, KEY } from './bench.ts'

/** The record with its only row changed. */
function withRow(
  record: RegionRecord,
  change: (row: RecordRow) => Partial<RecordRow>,
): RegionRecord {
  return { ...record, rows: record.rows.map((row) => ({ ...row, ...change(row) })) }
}

const borrowed = (bench: Bench): number =>
  shareOf(bench.state('b'), KEY, bench.nowMs)?.borrowed ?? 0

describe('a record', () => {
  it('of this region itself is ignored and counted', () => {
    const bench = new Bench()
    bench.lendToB()
    const own = bench.send('a')
    const before = bench.state('a')
    bench.hear('a', own)
    const { alarms, ...rest } = bench.state('a')
    expect(alarms['own-record']).toBe(1)
    expect(rest.keys).toBe(before.keys)
    expect(rest.heard).toBe(before.heard)
  })

  it('that is not newer than the last changes nothing', () => {
    const bench = new Bench()
    const early = bench.send('a')
    bench.lendToB()
    const state = bench.state('b')
    bench.hear('b', early)
    expect(bench.state('b').heard).toBe(state.heard)
    expect(bench.state('b').keys).toBe(state.keys)
  })

  it('of a region that is no member is ignored', () => {
    const bench = new Bench()
    bench.hear('b', { ...bench.send('a'), from: 'stranger' })
    expect(bench.state('b').heard.has('stranger')).toBe(false)
  })

  it('sent before its region was removed revives no loan once that region is back', () => {
    const bench = new Bench()
    bench.lendToB()
    const early = bench.send('a')
    const limits = bench.state('b').limits ?? new Map()
    for (let round = 0; round < 8; round++) {
      bench.load('a', 900, 400)
      bench.load('b', 10)
      bench.exchange()
    }
    expect(bench.lent('a', 'b')).toBeLessThan(100_000)
    for (const [policyRevision, members] of [
      [2, ['b']],
      [3, ['a', 'b']],
    ] as const) {
      bench.feed('b', {
        kind: 'limits',
        policyRevision,
        limits,
        members,
        formerMembers: [],
        leastIncarnations: {},
      })
    }
    bench.hear('b', early)
    expect(borrowed(bench)).toBe(0)
    expect(bench.effective('a') + bench.effective('b')).toBeLessThanOrEqual(1_000_000)
  })

  it('alone repairs what was lost before it, and late ones before it change nothing (B155)', () => {
    const bench = new Bench()
    bench.lendToB()
    const held: RegionRecord[] = []
    for (let second = 0; second < 9; second++) {
      bench.nowMs += 1_000
      bench.tick('a')
      bench.hear('a', bench.send('b'))
      held.push(bench.send('a'))
    }
    expect(borrowed(bench)).toBeGreaterThan(0)
    const newest = held.at(-1)
    if (newest === undefined) throw new Error('nine were sent')
    bench.hear('b', newest)
    const { pairs, keys } = bench.state('b')
    expect(pairs.get('a')?.untilMs).toBeGreaterThan(bench.nowMs + LOAN_TTL_MS / 2)
    for (const late of held) bench.hear('b', late)
    expect(bench.state('b').pairs.get('a')?.untilMs).toBe(pairs.get('a')?.untilMs)
    expect(bench.state('b').keys.get(KEY)?.row).toBe(keys.get(KEY)?.row)
  })

  it('is ordered by incarnation, then fence, then sequence number', () => {
    const mark = (incarnation: number, fence: number, seq: number) => ({ incarnation, fence, seq })
    expect(isNewer(mark(2, 1, 1), mark(1, 9, 9))).toBe(true)
    expect(isNewer(mark(1, 2, 1), mark(1, 1, 9))).toBe(true)
    expect(isNewer(mark(1, 1, 2), mark(1, 1, 1))).toBe(true)
    expect(isNewer(mark(1, 1, 1), mark(1, 1, 1))).toBe(false)
    expect(isNewer(mark(1, 9, 9), mark(2, 1, 1))).toBe(false)
  })
})

describe('keys with a ledger of their own', () => {
  it('are no more than the bound; further ones are counted', () => {
    const bench = new Bench()
    const noticed = Array.from({ length: TRACKED_KEYS_MAX + 5 }, (_, i) => `{04s}1.0:tenant=${i}`)
    const none = { kind: 'measured', storeOffsetMs: 0, samples: [], missing: [] } as const
    bench.feed('a', { ...none, noticed })
    expect(bench.state('a').keys.size).toBe(TRACKED_KEYS_MAX)
    expect(bench.state('a').untrackedKeys).toBe(5)
  })

  it('are written again when the store lost their share', () => {
    const bench = new Bench()
    bench.load('a', 10)
    bench.effects.length = 0
    const none = { kind: 'measured', storeOffsetMs: 0, samples: [], noticed: [] } as const
    bench.feed('a', { ...none, missing: [KEY] })
    expect(bench.effects.map((effect) => effect.kind)).toEqual(['write-shares'])
  })
})

describe('a record that no honest ledger sends', () => {
  it.each<[string, (row: RecordRow) => Partial<RecordRow>]>([
    ['more lent than the lender’s base', () => ({ lent: { b: [9, 600_001, 0] } })],
    [
      'loans that together pass the base',
      () => ({ lent: { b: [9, 400_000, 0], c: [1, 300_000, 0] } }),
    ],
    ['more come back than lent', () => ({ lent: { b: [9, 100, 101] } })],
    ['a share above the pool', () => ({ share: 1_000_001, lent: { b: [9, 500_000, 0] } })],
    ['a quarantine above the pool', () => ({ quarantined: 2e6, lent: { b: [9, 500_000, 0] } })],
  ])('with %s gives no units', (_name, change) => {
    const bench = new Bench()
    bench.lendToB()
    const before = borrowed(bench)
    bench.hear('b', withRow(bench.send('a'), change))
    expect(borrowed(bench)).toBe(before)
    const { 'lent-above-base': base, 'units-above-pool': pool } = bench.state('b').alarms
    expect(base + pool).toBe(1)
  })

  it('with more given back than was lent gives nothing back', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    const born = bench.state('a').keys.get(KEY)?.row.lent['b']?.born ?? 0
    bench.hear(
      'a',
      withRow(bench.send('b'), () => ({ gaveBack: { a: [born, lent + 1] } })),
    )
    expect(bench.lent('a', 'b')).toBe(lent)
    expect(bench.state('a').alarms['returned-above-lent']).toBe(1)
    expect(bench.state('a').suspects.get('b')?.alarm).toBe('returned-above-lent')
  })

  it('that acknowledges what was never sent renews nothing', () => {
    const bench = new Bench()
    bench.lendToB()
    const until = bench.state('b').pairs.get('a')?.untilMs
    const record = bench.send('a')
    const ack = { ...bench.state('b'), seq: bench.state('b').nextSeq + 5 }
    const { incarnation, fence, seq } = ack
    bench.nowMs += 100
    bench.hear('b', { ...record, acks: { ...record.acks, b: { incarnation, fence, seq } } })
    expect(bench.state('b').pairs.get('a')?.untilMs).toBe(until)
    expect(bench.state('b').suspects.get('a')?.alarm).toBe('unknown-ack')
  })

  it('with figures of another birth of the row gives nothing back', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    bench.hear(
      'a',
      withRow(bench.send('b'), () => ({ gaveBack: { a: [99, lent] } })),
    )
    expect(bench.lent('a', 'b')).toBe(lent)
  })

  it('of a term that was never begun is ignored', () => {
    const bench = new Bench()
    bench.lendToB()
    const lent = bench.lent('a', 'b')
    const record = bench.send('b')
    const pairs = { a: { lend: [0, 0] as const, borrow: [1, 99, 1] as const } }
    bench.hear('a', { ...record, pairs })
    expect(bench.lent('a', 'b')).toBe(lent)
    expect(bench.state('a').alarms['unknown-term']).toBe(1)
  })

  it('with keys that are none, or of limits that are none, tracks nothing', () => {
    const bench = new Bench()
    const row = (id: string): RecordRow => ({
      id,
      share: 0,
      demand: 9_000_000,
      hungry: true,
      admitted: 0,
      denied: 9,
      returned: 0,
      quarantined: 0,
      lent: { b: [1, 100, 0] },
      gaveBack: {},
    })
    const ids = ['', 'nonsense', '{04s}7.0:k=v', '{04s}1.5:k=v', '__proto__']
    const record = bench.send('a')
    const pairs = { b: { lend: [1, 1] as const, borrow: [0, 0, 1] as const } }
    bench.hear('b', { ...record, pairs, rows: ids.map(row) })
    expect(bench.state('b').keys.size).toBe(0)
  })
})
