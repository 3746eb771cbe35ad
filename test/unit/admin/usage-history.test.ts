import { describe, expect, it } from 'vitest'
import { AmountRing } from '../../../services/admin/history/amount-ring.ts'
import { SeriesBook } from '../../../services/admin/history/series-book.ts'
import { LiveView } from '../../../services/admin/live-view.ts'
import { bucketsOfRows } from '../../../services/admin/views/usage-history.ts'
import { counterId } from '../../../shared/core/counter-id.ts'
import type { UsageRow } from '../../../shared/core/ledger/types.ts'
import type { Policy } from '../../../shared/core/policy.ts'
import { aRecord, aRow } from '../../integration/admin/a-record.ts'

const REGION = 'us-east-1'
const START_MS = 1_800_000_000_000
const LIMIT_ID = 7

/** A view of one limit with windows of `windowMs`, which hears of one region. */
function aView(windowMs: number) {
  const live = new LiveView()
  const limit = { id: LIMIT_ID, usageEpoch: 0, windowMs, capacity: 100, base: {}, shards: 1 }
  const policy = { id: 1, domain: 'api', name: 'p', limits: [limit] } as unknown as Policy
  live.follow({ policies: [policy], members: [REGION, 'eu-west-1'] }, START_MS)
  const of = { limitId: LIMIT_ID, usageEpoch: 0, region: REGION, key: null }
  return {
    live,
    usage: (rows: readonly Partial<UsageRow>[], nowMs: number, from = REGION) => {
      const usage = rows.map((row) => ({
        limitId: LIMIT_ID,
        usageEpoch: 0,
        window: Math.floor(nowMs / windowMs),
        admitted: 0,
        denied: 0,
        returned: 0,
        ...row,
      }))
      live.hear(aRecord({ from, usage }), nowMs)
    },
    second: (atMs: number) =>
      live.history.limits.get(of)?.seconds.at(Math.floor(atMs / 1_000))?.admitted ?? null,
    minute: (atMs: number) =>
      live.history.limits.get(of)?.minutes.at(Math.floor(atMs / 60_000))?.admitted ?? null,
  }
}

describe('the history of a limit', () => {
  it('puts each second’s count into its own second, however late and often it is told', () => {
    const { usage, second, minute } = aView(1_000)
    const window = START_MS / 1_000
    usage([{ window, admitted: 5 }], START_MS)
    usage([{ window, admitted: 8 }], START_MS + 700)
    usage(
      [
        { window, admitted: 8 },
        { window: window + 1, admitted: 2 },
      ],
      START_MS + 1_700,
    )
    usage(
      [
        { window, admitted: 9 },
        { window: window + 1, admitted: 1 },
      ],
      START_MS + 2_700,
    )
    expect([second(START_MS), second(START_MS + 1_000)]).toEqual([9, 2])
    expect(minute(START_MS)).toBe(11)
  })

  it('is told of the windows before its start, and so ends with whole minutes', () => {
    const { usage, minute } = aView(1_000)
    const first = START_MS / 1_000
    const rows = Array.from({ length: 40 }, (_, i) => ({ window: first + i, admitted: 10 }))
    usage(rows, START_MS + 40_000)
    expect(minute(START_MS)).toBe(400)
  })

  it('takes no count of a long window for its own that it did not see grow', () => {
    const day = 86_400_000
    const { live, usage, second, minute } = aView(day)
    usage([{ admitted: 1_000 }], START_MS)
    usage([{ admitted: 1_004 }], START_MS + 1_000)
    expect([second(START_MS), second(START_MS + 1_000)]).toEqual([0, 4])
    expect(minute(START_MS)).toBe(4)
    const [bucket] = live.history.pending.take()
    expect(bucket).toMatchObject({ window: Math.floor(START_MS / day), admitted: 1_004 })
  })

  it('waits to be written as whole minutes, which a second admin would write alike', () => {
    const [one, other] = [aView(1_000), aView(1_000)]
    const window = START_MS / 1_000
    one.usage([{ window, admitted: 5 }], START_MS)
    one.usage(
      [
        { window, admitted: 8 },
        { window: window + 1, admitted: 3 },
      ],
      START_MS + 1_000,
    )
    other.usage(
      [
        { window, admitted: 8 },
        { window: window + 1, admitted: 3 },
      ],
      START_MS + 1_900,
    )
    const buckets = one.live.history.pending.take()
    expect(buckets).toMatchObject([{ window: null, startsMs: START_MS, admitted: 11 }])
    expect(other.live.history.pending.take()).toEqual(buckets)
    expect(one.live.history.pending.take()).toEqual([])
    one.live.history.pending.putBack(buckets)
    expect(one.live.history.pending.take()).toEqual(buckets)
  })

  it('forgets limits that are gone and usage before a reset', () => {
    const { live, usage } = aView(1_000)
    usage([{ admitted: 5 }], START_MS)
    expect(live.history.limits.size).toBe(1)
    live.follow({ policies: [], members: [REGION] }, START_MS)
    expect(live.history.limits.size).toBe(0)
  })
})

describe('the history of a hot key', () => {
  const id = counterId({ group: 0, limitId: LIMIT_ID, usageEpoch: 0, name: 'tenant=acme' })
  const of = { limitId: LIMIT_ID, usageEpoch: 0, region: REGION, key: 'tenant=acme' }

  it('spreads what was counted since the last telling, and counts on when it is tracked anew', () => {
    const { live } = aView(1_000)
    const tell = (admitted: number, atMs: number) =>
      live.hear(aRecord({ rows: [aRow(id, { admitted, denied: 0 })] }), atMs)
    tell(100, START_MS)
    expect(live.history.keys.get(of)).toBeNull()
    tell(150, START_MS + 5_000)
    const series = live.history.keys.get(of)
    const seconds = [1, 2, 3, 4, 5].map((s) => series?.seconds.at(START_MS / 1_000 + s)?.admitted)
    expect(seconds).toEqual([10, 10, 10, 10, 10])
    tell(7, START_MS + 6_000)
    expect(series?.minutes.sum(0, Number.POSITIVE_INFINITY).admitted).toBe(57)
  })

  it('estimates the unmet demand of a region that is short, for the key and for its limit', () => {
    const { live } = aView(1_000)
    const row = aRow(id, { hungry: true, demand: 90_000, share: 600_000 })
    live.hear(aRecord({ rows: [row] }), START_MS)
    live.hear(aRecord({ rows: [row] }), START_MS + 2_000)
    // 90 a second are wanted and 60 % of 100 are allowed, for two seconds.
    expect(live.history.keys.get(of)?.minutes.at(START_MS / 60_000)?.unmet).toBe(60)
    expect(live.history.limits.get({ ...of, key: null })?.seconds.at(START_MS / 1_000 + 2)).toEqual(
      {
        admitted: 0,
        denied: 0,
        returned: 0,
        unmet: 60,
      },
    )
    expect(live.history.pending.take()).toMatchObject([{ window: null, unmet: 60 }])
  })
})

describe('the memory of a history', () => {
  it('is a ring: what is older than it reaches is ignored, and never counted as anything else', () => {
    const ring = new AmountRing(3, 1_000)
    const one = { admitted: 1, denied: 0, returned: 0, unmet: 0 }
    for (const second of [10, 11, 12, 13, 13]) ring.add(second * 1_000, one)
    ring.add(10_500, one)
    expect([10, 11, 12, 13].map((second) => ring.at(second)?.admitted ?? null)).toEqual([
      null,
      1,
      1,
      2,
    ])
    expect(ring.sum(12, 14).admitted).toBe(3)
  })

  it('is bounded, and a heavy newcomer takes the place of a light series, never the other way', () => {
    const book = new SeriesBook(3)
    const of = (key: string) => ({ limitId: 1, usageEpoch: 0, region: REGION, key })
    const weighing = (admitted: number) => ({ admitted, denied: 0, returned: 0, unmet: 0 })
    book.admit(of('light'), weighing(1), START_MS)
    book.admit(of('a'), weighing(50), START_MS)
    book.admit(of('b'), weighing(50), START_MS)
    expect(book.admit(of('lighter'), weighing(0.5), START_MS)).toBeNull()
    expect(book.turnedAway).toBe(1)
    expect(book.admit(of('heavy'), weighing(40), START_MS)).not.toBeNull()
    expect([...book.all()].map(({ key }) => key).sort()).toEqual(['a', 'b', 'heavy'])
    // What was busy long ago weighs little.
    expect(book.admit(of('late'), weighing(10), START_MS + 300_000)).not.toBeNull()
    expect(book.size).toBe(3)
  })
})

describe('rows of long windows', () => {
  it('give each bucket what was counted in it, also of the first one and over a new window', () => {
    const row = (startsMs: number, window: number, admitted: number) => ({
      limitId: 1,
      usageEpoch: 0,
      region: REGION,
      startsMs,
      window,
      admitted,
      denied: 0,
      returned: 0,
      unmet: 0,
    })
    const rows = [row(60_000, 4, 15), row(180_000, 4, 40), row(180_000, 5, 3), row(240_000, 5, 9)]
    const buckets = bucketsOfRows(rows, [row(0, 4, 10)])
    expect([...buckets].map(([at, byRegion]) => [at, byRegion.get(REGION)?.admitted])).toEqual([
      [60_000, 5],
      [180_000, 28],
      [240_000, 6],
    ])
  })
})
