import { describe, expect, it } from 'vitest'
import { packDoubles } from '../../shared/redis/layout.ts'
import { UsageTotals } from '../../shared/redis/usage-totals.ts'

const entry = (window: number, admitted: number) => packDoubles([window, admitted, 0, 0])

describe('usage summed over slot groups', () => {
  it('keeps what a group said of a window when only another group has changed', () => {
    const totals = new UsageTotals()
    totals.put(0, '7.0:3', entry(67, 10))
    totals.put(1, '7.0:3', entry(67, 5))
    expect(totals.takeRows().map(({ admitted }) => admitted)).toEqual([15])
    totals.put(1, '7.0:3', entry(67, 9))
    expect(totals.takeRows()).toEqual([
      { limitId: 7, usageEpoch: 0, window: 67, admitted: 19, denied: 0, returned: 0 },
    ])
    expect(totals.takeRows()).toEqual([])
  })

  it('never adds windows that share a place in the ring (B146)', () => {
    const totals = new UsageTotals()
    totals.put(0, '7.0:3', entry(3, 100))
    totals.put(1, '7.0:3', entry(67, 1))
    expect(totals.takeRows()).toMatchObject([{ window: 67, admitted: 1 }])
  })

  it('forgets limits that are gone, and takes nothing from strange entries', () => {
    const totals = new UsageTotals()
    totals.put(0, '7.0:3', entry(3, 1))
    totals.put(0, '8.0:3', entry(3, 1))
    totals.put(0, 'changed', Buffer.from(',7.0:3,'))
    totals.put(0, '9.0:3', null)
    totals.keepOnly(new Map([[8, true]]))
    expect(totals.takeRows().map(({ limitId }) => limitId)).toEqual([8])
  })
})
