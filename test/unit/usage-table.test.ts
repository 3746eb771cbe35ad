import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { UsageRow } from '../../shared/core/ledger/types.ts'
import {
  createUsageTable,
  mergeForeign,
  pruneUsage,
  publishOwn,
  recordOwn,
  USAGE_INCARNATIONS_MAX,
  USAGE_WINDOWS_MAX,
  type UsageRules,
  type UsageTable,
  usageOf,
} from '../../shared/core/usage/usage-table.ts'

const NOW_WINDOW = 1_000
const rulesAt = (window: number, usageEpoch = 0): UsageRules => ({
  limits: new Map([[1, { windowMs: 1_000, usageEpoch }]]),
  wallMs: window * 1_000 + 500,
})
const RULES = rulesAt(NOW_WINDOW)

const aRow = (change: Partial<UsageRow> = {}): UsageRow => ({
  limitId: 1,
  usageEpoch: 0,
  window: NOW_WINDOW,
  admitted: 0,
  denied: 0,
  returned: 0,
  ...change,
})

const of = (window: number, usageEpoch = 0) => ({ limitId: 1, usageEpoch, window })
const admitted = (table: UsageTable, window = NOW_WINDOW): number => {
  const { own, foreign } = usageOf(table, of(window))
  return own.admitted + foreign.admitted
}

interface Report {
  readonly region: string
  readonly incarnation: number
  readonly rows: readonly UsageRow[]
}
const count = fc.nat({ max: 1_000 })
const report: fc.Arbitrary<Report> = fc.record({
  region: fc.constantFrom('eu-west-1', 'ap-south-1', 'us-east-1'),
  incarnation: fc.integer({ min: 1, max: 3 }),
  rows: fc.array(
    fc
      .record({
        window: fc.integer({ min: NOW_WINDOW - 70, max: NOW_WINDOW + 3 }),
        usageEpoch: fc.integer({ min: 0, max: 1 }),
        admitted: count,
        denied: count,
        returned: count,
      })
      .map((row) => aRow(row)),
    { maxLength: 4 },
  ),
})
const reports = fc.array(report, { maxLength: 12 })
const merge = (table: UsageTable, list: readonly Report[]): UsageTable =>
  list.reduce((merged, one) => mergeForeign(merged, one, RULES), table)
const EMPTY = createUsageTable('us-east-1')

/** Every total that the table can tell, in an order that does not depend on how it came about. */
function totals(table: UsageTable): unknown {
  return Array.from({ length: 80 }, (_, index) => {
    const { own, foreign, byRegion } = usageOf(table, of(NOW_WINDOW - 72 + index))
    return { own, foreign, byRegion: Object.fromEntries([...byRegion].sort()) }
  })
}

describe('usage of all regions', () => {
  it('does not depend on the order, the number or the grouping of reports', () => {
    fc.assert(
      fc.property(reports, fc.nat(), (list, turn) => {
        const cut = list.length === 0 ? 0 : turn % list.length
        const repeated = [...list.slice(cut), ...list.slice(0, cut), ...list].reverse()
        expect(totals(merge(EMPTY, repeated))).toEqual(totals(merge(EMPTY, list)))
      }),
    )
  })

  it('never falls by a report', () => {
    fc.assert(
      fc.property(reports, report, (list, one) => {
        const before = merge(EMPTY, list)
        const after = merge(before, [one])
        for (let window = NOW_WINDOW - 70; window <= NOW_WINDOW + 3; window++) {
          const [was, is] = [usageOf(before, of(window)), usageOf(after, of(window))]
          expect(is.foreign.admitted).toBeGreaterThanOrEqual(was.foreign.admitted)
          expect(is.foreign.returned).toBeGreaterThanOrEqual(was.foreign.returned)
          expect(is.own).toEqual(was.own)
        }
      }),
    )
  })

  it('never counts a region’s own report that comes back to it (B136)', () => {
    const own = recordOwn(EMPTY, { incarnation: 1, rows: [aRow({ admitted: 20 })] }, RULES)
    const echoed = { region: 'us-east-1', incarnation: 1, rows: [aRow({ admitted: 20 })] }
    expect(merge(own, [echoed])).toBe(own)
    expect(usageOf(own, of(NOW_WINDOW))).toMatchObject({
      own: { admitted: 20 },
      foreign: { admitted: 0 },
    })
  })

  it('goes on from 500 to 600 when a region loses its counters and starts again (B142)', () => {
    const before = { region: 'eu-west-1', incarnation: 1, rows: [aRow({ admitted: 500 })] }
    const after = { region: 'eu-west-1', incarnation: 2, rows: [aRow({ admitted: 100 })] }
    expect(admitted(merge(EMPTY, [before, after, before]))).toBe(600)
  })

  it('takes a report of one window for that window only, however late it comes (B143, B146)', () => {
    const late = { region: 'eu-west-1', incarnation: 1, rows: [aRow({ admitted: 90 })] }
    const own = recordOwn(
      EMPTY,
      { incarnation: 1, rows: [aRow({ window: NOW_WINDOW + 1, admitted: 5 })] },
      rulesAt(NOW_WINDOW + 1),
    )
    const table = mergeForeign(own, late, rulesAt(NOW_WINDOW + 3))
    expect([admitted(table), admitted(table, NOW_WINDOW + 1)]).toEqual([90, 5])
  })

  it('stays at zero after a reset, whatever old reports still say (B145)', () => {
    const old = { region: 'eu-west-1', incarnation: 1, rows: [aRow({ admitted: 80 })] }
    const reset = rulesAt(NOW_WINDOW, 1)
    const table = mergeForeign(pruneUsage(merge(EMPTY, [old]), reset), old, reset)
    expect(usageOf(table, of(NOW_WINDOW, 0)).foreign.admitted).toBe(0)
    expect(usageOf(table, of(NOW_WINDOW, 1)).foreign.admitted).toBe(0)
  })

  it('is kept for a bounded number of windows and incarnations', () => {
    let table = EMPTY
    for (let window = 1; window <= NOW_WINDOW; window++) {
      const rows = [aRow({ window, admitted: 1 })]
      const rules = rulesAt(window)
      table = mergeForeign(table, { region: 'eu-west-1', incarnation: window, rows }, rules)
      table = pruneUsage(recordOwn(table, { incarnation: 1, rows }, rules), rules)
    }
    const kept = [table.own, table.foreign].map((limits) => [...limits.values()])
    expect(kept.map(([limit]) => limit?.windows.size)).toEqual([
      USAGE_WINDOWS_MAX,
      USAGE_WINDOWS_MAX,
    ])
    for (let incarnation = 1; incarnation <= 2 * USAGE_INCARNATIONS_MAX; incarnation++) {
      table = merge(table, [{ region: 'b', incarnation, rows: [aRow({ admitted: 1 })] }])
    }
    const { byRegion } = usageOf(table, of(NOW_WINDOW))
    expect(byRegion.get('b')?.admitted).toBe(USAGE_INCARNATIONS_MAX)
  })
})

describe('a published record', () => {
  it('repeats what some peer has not acknowledged, and nothing else', () => {
    const first = recordOwn(EMPTY, { incarnation: 1, rows: [aRow({ admitted: 7 })] }, RULES)
    const one = publishOwn(first, { incarnation: 1, seq: 10, ackedSeq: -1 })
    expect(one.rows).toEqual([aRow({ admitted: 7 })])
    const two = publishOwn(one.table, { incarnation: 1, seq: 11, ackedSeq: 9 })
    expect(two.rows).toEqual(one.rows)
    expect(publishOwn(two.table, { incarnation: 1, seq: 12, ackedSeq: 10 }).rows).toEqual([])
  })

  it('repeats what a listener that fell back may not have, although another has it', () => {
    let table = recordOwn(EMPTY, { incarnation: 1, rows: [aRow({ admitted: 7 })] }, RULES)
    table = publishOwn(table, { incarnation: 1, seq: 10, ackedSeq: 9 }).table
    table = publishOwn(table, { incarnation: 1, seq: 11, ackedSeq: 10 }).table
    const back = publishOwn(table, { incarnation: 1, seq: 12, ackedSeq: 5 })
    expect(back.rows).toEqual([aRow({ admitted: 7 })])
    for (const seq of [13, 2_000]) {
      const { rows } = publishOwn(table, { incarnation: 1, seq, ackedSeq: -1 })
      expect(rows).toEqual([aRow({ admitted: 7 })])
    }
  })

  it('looks at nothing but what changed lately, however many limits there are', () => {
    const limits = new Map(
      Array.from({ length: 500 }, (_, id) => [id, { windowMs: 1_000, usageEpoch: 0 }]),
    )
    const rules = { limits, wallMs: NOW_WINDOW * 1_000 }
    const rows = [...limits.keys()].map((limitId) => aRow({ limitId, admitted: 1 }))
    let table = recordOwn(EMPTY, { incarnation: 1, rows }, rules)
    table = publishOwn(table, { incarnation: 1, seq: 1, ackedSeq: -1 }).table
    table = publishOwn(table, { incarnation: 1, seq: 1_000, ackedSeq: 999 }).table
    expect(table.recent.size).toBe(0)
    const touched = recordOwn(
      table,
      { incarnation: 1, rows: [aRow({ limitId: 3, admitted: 2 })] },
      rules,
    )
    expect([...touched.recent.keys()]).toEqual(['3.0'])
    expect(touched.own.get('4.0')).toBe(table.own.get('4.0'))
    const unchanged = { region: 'eu-west-1', incarnation: 1, rows: [] }
    expect(merge(touched, [unchanged]).foreign).toBe(touched.foreign)
  })

  it('carries only own counts of the present incarnation', () => {
    let table = recordOwn(EMPTY, { incarnation: 1, rows: [aRow({ admitted: 7 })] }, RULES)
    table = recordOwn(table, { incarnation: 2, rows: [aRow({ admitted: 3 })] }, RULES)
    table = merge(table, [{ region: 'b', incarnation: 2, rows: [aRow({ admitted: 50 })] }])
    const { rows } = publishOwn(table, { incarnation: 2, seq: 1, ackedSeq: -1 })
    expect(rows).toEqual([aRow({ admitted: 3 })])
    expect(usageOf(table, of(NOW_WINDOW)).own.admitted).toBe(10)
  })

  it('alone repairs a partition of half a minute, window by window (B139)', () => {
    let [sender, receiver] = [createUsageTable('b'), EMPTY]
    let rows: readonly UsageRow[] = []
    for (let second = 0; second < 30; second++) {
      const window = NOW_WINDOW + second
      const own = { incarnation: 1, rows: [aRow({ window, admitted: second + 1 })] }
      sender = recordOwn(sender, own, rulesAt(window))
      const published = publishOwn(sender, { incarnation: 1, seq: second, ackedSeq: -1 })
      sender = published.table
      rows = published.rows
    }
    receiver = mergeForeign(
      receiver,
      { region: 'b', incarnation: 1, rows },
      rulesAt(NOW_WINDOW + 29),
    )
    const seen = Array.from({ length: 30 }, (_, index) => admitted(receiver, NOW_WINDOW + index))
    expect(seen).toEqual(Array.from({ length: 30 }, (_, index) => index + 1))
  })

  it('ends every region at the true totals after any loss, repetition and reordering (B140)', () => {
    const steps = fc.array(
      fc.record({ add: fc.nat({ max: 9 }), isLost: fc.boolean(), copies: fc.nat({ max: 2 }) }),
      { minLength: 1, maxLength: 60 },
    )
    fc.assert(
      fc.property(steps, fc.boolean(), (list, isReversed) => {
        const { total, receiver, late } = exchange(list)
        expect(admitted(receiver)).toBe(total)
        expect(admitted(merge(receiver, isReversed ? late.reverse() : late))).toBe(total)
      }),
    )
  })
})

interface Step {
  readonly add: number
  readonly isLost: boolean
  readonly copies: number
}

/** A sender that admits, publishes and hears acknowledgements, over a link that loses all but the last record. */
function exchange(steps: readonly Step[]): {
  total: number
  receiver: UsageTable
  late: Report[]
} {
  let [sender, receiver] = [createUsageTable('b'), EMPTY]
  let [total, acked] = [0, -1]
  const late: Report[] = []
  for (const [seq, step] of steps.entries()) {
    total += step.add
    const own = { incarnation: 1, rows: [aRow({ admitted: total })] }
    // Read twice around the tick: what Redis counted is absolute, so nothing is counted twice.
    sender = recordOwn(recordOwn(sender, own, RULES), own, RULES)
    const record = publishOwn(sender, { incarnation: 1, seq, ackedSeq: acked })
    sender = record.table
    const message = { region: 'b', incarnation: 1, rows: record.rows }
    if (step.isLost && seq < steps.length - 1) {
      late.push(message)
      continue
    }
    receiver = merge(
      receiver,
      Array.from({ length: step.copies + 1 }, () => message),
    )
    acked = seq
  }
  return { total, receiver, late }
}
