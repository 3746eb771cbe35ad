import { describe, expect, it } from 'vitest'
import { hunt, STOCK_HUNTS } from '../../simulation/kills.ts'
import { runStock, STOCK_STEPS } from '../../simulation/stock/model.ts'

const RUNS = 300

describe('the stock of a long window', () => {
  // INV-10
  it('is never overspent, whatever is lost, late, repeated, cut off or forgotten', () => {
    let spent = 0
    for (let seed = 1; seed <= RUNS; seed++) spent += runStock(seed, STOCK_STEPS, null).spent
    expect(spent).toBeGreaterThan(RUNS * 10)
  })

  it.each(STOCK_HUNTS)('is overspent where $rule', (one) => {
    expect(hunt(one), `no seed up to ${one.seedsMax} shows it`).not.toBeNull()
  })
})
