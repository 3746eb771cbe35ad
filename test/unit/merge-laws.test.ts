/**
 * Everything that regions say of themselves is merged so that order, number and grouping do not matter: commutative,
 * idempotent, associative.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CountTable } from '../../shared/core/estimate/count-table.ts'
import { isNewer } from '../../shared/core/ledger/state.ts'
import type { RecordMark, UsageRow } from '../../shared/core/ledger/types.ts'
import { addAllotment, settleStock, storeStock } from '../../shared/core/stock/counter.ts'
import {
  createUsageTable,
  mergeForeign,
  recordOwn,
  type UsageTable,
  usageOf,
} from '../../shared/core/usage/usage-table.ts'
import { aLimit, Bench, KEY } from './ledger/bench.ts'

/** Holds all three laws against a merge: `mergeAll` takes one group after the other and shows what it came to. */
function holdsLaws<Report>(
  report: fc.Arbitrary<Report>,
  mergeAll: (groups: readonly (readonly Report[])[]) => unknown,
): void {
  const reports = fc.array(report, { minLength: 1, maxLength: 8 })
  const shuffled = reports.chain((list) =>
    fc.tuple(
      fc.constant(list),
      fc.shuffledSubarray(list, { minLength: list.length }),
      fc.nat({ max: list.length }),
    ),
  )
  fc.assert(
    fc.property(shuffled, ([list, other, cut]) => {
      const merged = mergeAll([list])
      expect(mergeAll([other]), 'commutative').toEqual(merged)
      expect(mergeAll([list, other.slice(cut)]), 'idempotent').toEqual(merged)
      expect(mergeAll([list.slice(0, cut), list.slice(cut)]), 'associative').toEqual(merged)
      expect(mergeAll(list.map((one) => [one])), 'associative').toEqual(merged)
    }),
  )
}

const WINDOW = 1_000
const RULES = {
  limits: new Map([[1, { windowMs: 1_000, usageEpoch: 0 }]]),
  wallMs: WINDOW * 1_000 + 500,
}
const usageRow: fc.Arbitrary<UsageRow> = fc.record({
  limitId: fc.constant(1),
  usageEpoch: fc.constant(0),
  window: fc.integer({ min: WINDOW - 3, max: WINDOW }),
  admitted: fc.nat({ max: 100 }),
  denied: fc.nat({ max: 100 }),
  returned: fc.nat({ max: 100 }),
})
const EMPTY = createUsageTable('a')

function totalsOf(table: UsageTable): unknown {
  return [3, 2, 1, 0].map((age) => {
    const usage = usageOf(table, { limitId: 1, usageEpoch: 0, window: WINDOW - age })
    return { ...usage, byRegion: Object.fromEntries([...usage.byRegion].sort()) }
  })
}

describe('order, number and grouping do not matter', () => {
  it('to usage that peers report', () => {
    const report = fc.record({
      region: fc.constantFrom('b', 'c'),
      incarnation: fc.integer({ min: 1, max: 2 }),
      row: usageRow,
    })
    holdsLaws(report, (groups) =>
      totalsOf(
        groups.flat().reduce((table, { row, ...from }) => {
          return mergeForeign(table, { ...from, rows: [row] }, RULES)
        }, EMPTY),
      ),
    )
  })

  it('to how the rows of one peer are joined to reports', () => {
    holdsLaws(usageRow, (groups) =>
      totalsOf(
        groups.reduce(
          (table, rows) => mergeForeign(table, { region: 'b', incarnation: 1, rows }, RULES),
          EMPTY,
        ),
      ),
    )
  })

  it('to what a region reads of its own Redis', () => {
    holdsLaws(usageRow, (groups) =>
      totalsOf(
        groups.reduce((table, rows) => recordOwn(table, { incarnation: 1, rows }, RULES), EMPTY),
      ),
    )
  })

  it('to counts of eventual policies', () => {
    const report = fc.record({
      from: fc.constantFrom('b', 'c'),
      incarnation: fc.integer({ min: 1, max: 2 }),
      count: fc.record({
        id: fc.constantFrom(KEY, `${KEY}2`),
        startMs: fc.constantFrom(8_000, 9_000, 10_000),
        used: fc.nat({ max: 100 }),
      }),
    })
    holdsLaws(report, (groups) => {
      const table = new CountTable()
      for (const { count, ...from } of groups.flat()) {
        table.hear({ ...from, counts: [count] }, 9_500, () => 1_000)
      }
      return [9_500, 10_500].map((nowMs) =>
        [...table.known(nowMs, () => 1_000)].sort((one, other) => (one.id < other.id ? -1 : 1)),
      )
    })
  })

  it('to which record of a region is the newest', () => {
    const mark: fc.Arbitrary<RecordMark> = fc.record({
      incarnation: fc.nat({ max: 2 }),
      fence: fc.nat({ max: 2 }),
      seq: fc.nat({ max: 2 }),
    })
    const later = (one: RecordMark, other: RecordMark): RecordMark =>
      isNewer(other, one) ? other : one
    holdsLaws(mark, (groups) =>
      groups.map((group) => group.reduce(later, group[0] ?? NO_MARK)).reduce(later, NO_MARK),
    )
  })

  it('to the tokens that a region was allotted of a long window', () => {
    const window = { startUs: 1_000, endUs: 2_000, floor: 5 }
    const boot = { number: 1, startUs: 0, recovering: false }
    const circumstances = { windows: [window], boot, nowUs: 1_500 }
    const answer = fc.nat({ max: 50 }).map((to) => ({ startUs: 1_000, from: 0, to, low: 0 }))
    holdsLaws(answer, (groups) =>
      groups.flat().reduce(
        (state, one) => {
          const added = addAllotment(settleStock(state, circumstances), one)
          return added === null ? state : storeStock(added)
        },
        storeStock(settleStock(null, circumstances)),
      ),
    )
  })

  it('and a merge that adds is found out', () => {
    const add = (groups: readonly (readonly number[])[]): number =>
      groups.flat().reduce((sum, one) => sum + one, 0)
    expect(() => holdsLaws(fc.nat({ max: 100 }), add)).toThrow('Property failed')
  })
})

const NO_MARK: RecordMark = { incarnation: -1, fence: 0, seq: 0 }

describe('order and number of records do not matter', () => {
  it('to what a borrower knows of its loans and of its lender', () => {
    const order = fc.array(fc.nat({ max: RECORDS - 1 }), { maxLength: 12 })
    fc.assert(
      fc.property(order, (places) => {
        const { bench, records, newest } = lend()
        for (const place of places) bench.hear('b', records[place] ?? newest)
        bench.hear('b', newest)
        for (const record of records) bench.hear('b', record)
        const { heard, keys } = bench.state('b')
        expect(heard.get('a')?.record).toBe(newest)
        const told = newest.rows.flatMap(({ lent }) => (lent['b'] === undefined ? [] : [lent['b']]))
        const { born, lent } = keys.get(KEY)?.row.borrowed['a'] ?? {}
        expect([[born, lent]]).toEqual(told.map((loan) => loan.slice(0, 2)))
      }),
      { numRuns: 60 },
    )
  })

  it('to which regions have adopted an epoch', () => {
    const base = { a: 300_000, b: 300_000, c: 400_000 }
    const change = { epoch: 1, base, previousBase: { a: 500_000, b: 300_000, c: 200_000 } }
    const order = fc.array(fc.constantFrom('a', 'b'), { maxLength: 8 })
    fc.assert(
      fc.property(order, (senders) => {
        const bench = new Bench([aLimit({ base: change.previousBase })], ['a', 'b', 'c'])
        bench.setLimits([aLimit(change)])
        for (const region of ['a', 'b', 'c']) bench.giveLimits(region)
        for (const region of ['a', 'b', 'c']) bench.tick(region)
        const records = { a: bench.send('a'), b: bench.send('b') }
        for (const from of [...senders, 'a', 'b', ...senders] as const) {
          bench.hear('c', records[from])
        }
        const { adoptedBy } = bench.state('c').epochs.get(1) ?? {}
        expect([...(adoptedBy ?? [])].sort()).toEqual(['a', 'b', 'c'])
      }),
      { numRuns: 60 },
    )
  })
})

const RECORDS = 5

/** Records of a lender, one after the other, none of which its borrower has heard. */
function lend() {
  const bench = new Bench([aLimit()], ['a', 'b'])
  bench.load('a', 10)
  bench.load('b', 900, 400)
  bench.hear('a', bench.send('b'))
  const records = Array.from({ length: RECORDS }, () => {
    bench.hear('a', bench.send('b'))
    return bench.send('a')
  })
  const [newest] = records.slice(-1)
  if (newest === undefined) throw new Error('the lender has sent records')
  return { bench, records, newest }
}
