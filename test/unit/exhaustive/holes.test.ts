import { describe, expect, it } from 'vitest'
import { counterId } from '../../../shared/core/counter-id.ts'
import type { LedgerLimit } from '../../../shared/core/ledger/types.ts'
import { POOL_UNITS } from '../../../shared/core/units.ts'
import { aLimit, ProductionRegion, sumOfShares } from '../../exhaustive/production.ts'

const KEY = counterId({ group: 0, limitId: 1, usageEpoch: 0, name: 'k=v' })
const ALL_IN_A = { a: POOL_UNITS }

/** Region a lends all it may to a hungry b, the policy changes, and a loses its memory at once. */
function sharesAfterAmnesia(before: LedgerLimit, after: LedgerLimit): number {
  const members = ['a', 'b']
  const a = new ProductionRegion('a', { members, limit: before, keyId: KEY })
  const b = new ProductionRegion('b', { members, limit: before, keyId: KEY })
  a.start('first', 0)
  b.start('first', 0)
  let nowMs = 0
  for (let denied = 900; denied <= 9_000; denied += 900) {
    nowMs += 300
    read(b, denied, nowMs)
    read(a, 0, nowMs)
    a.act({ kind: 'record', record: b.publish(nowMs) }, nowMs)
    b.act({ kind: 'record', record: a.publish(nowMs) }, nowMs)
  }
  expect(b.share(nowMs)).toBeGreaterThan(POOL_UNITS / 2)
  for (const region of [a, b]) region.usePolicy(after, 2, nowMs)
  a.start('lost', nowMs)
  return sumOfShares([a, b], () => nowMs)
}

function read(region: ProductionRegion, denied: number, nowMs: number): void {
  const samples = [{ id: KEY, admitted: 0, denied, returned: 0 }]
  const noticed = denied > 0 ? [KEY] : []
  region.act({ kind: 'measured', storeOffsetMs: 0, samples, noticed, missing: [] }, nowMs)
}

describe('a region that lost its memory uses no unit that it may have lent', () => {
  it('under the policy that it lent by', () => {
    const limit = aLimit(ALL_IN_A, 10)
    expect(sharesAfterAmnesia(limit, limit)).toBeLessThanOrEqual(POOL_UNITS)
  })

  // A floor can rise without an epoch, and a region may have lent under the lower one: so it uses no floor.
  it('when its floor was raised since', () => {
    const [before, after] = [aLimit(ALL_IN_A, 0), aLimit(ALL_IN_A, 50)]
    expect(sharesAfterAmnesia(before, after)).toBeLessThanOrEqual(POOL_UNITS)
  })

  it('when its burst was lowered since, which makes one token more units', () => {
    const before = aLimit(ALL_IN_A, 2)
    expect(sharesAfterAmnesia(before, { ...before, burst: 2 })).toBeLessThanOrEqual(POOL_UNITS)
  })
})
