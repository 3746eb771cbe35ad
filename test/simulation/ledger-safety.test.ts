import { describe, expect, it } from 'vitest'
import { createLedger } from '../../shared/core/ledger/state.ts'
import { runChaos } from './model/chaos.ts'
import { eachOf, seedBatches } from './seeds.ts'

/**
 * anytime: checked after every step by the world itself — the shares of all regions stay within the pool, none is
 * negative or below its floor, no borrower holds more than its lender has out, and the admissions of all regions
 * together pass a limiter that sees them all. `npm run test:long` plays twenty times as many.
 */
describe('anytime, whatever links, clocks, daemons and stores do', () => {
  it.each(seedBatches(60))(
    'no limit is exceeded, while base splits change too (seeds $first to $last)',
    (batch) => eachOf(batch, (seed) => runChaos({ seed, forMs: 40_000 })),
  )

  it.each(seedBatches(40))(
    'no limit is exceeded and every region keeps its floor under one base split (seeds $first to $last)',
    (batch) => eachOf(batch, (seed) => runChaos({ seed, forMs: 40_000, hasEpochs: false })),
  )
})

describe('the trouble that the simulation makes', () => {
  it('meets every fault and raises no alarm', () => {
    const results = Array.from({ length: 15 }, (_, seed) => runChaos({ seed, forMs: 40_000 }))
    const faults = new Set(results.flatMap(({ troubles }) => Object.keys(troubles)))
    expect([...faults].sort()).toEqual([
      'cut',
      'daemon crash',
      'epoch',
      'heal',
      'healing cut',
      'lost region',
      'lowered limit',
      'one-way cut',
      'removal',
      'store restart',
      'takeover',
    ])
    const states = results.flatMap(({ world }) => world.sites.map((site) => site.daemon.state))
    for (const { alarms } of states) {
      expect({ ...alarms, 'own-record': 0 }).toEqual(createLedger('a').alarms)
    }
    // Otherwise nothing was tested: loans were made, shrinks refused, epochs completed.
    const pairs = states.flatMap((state) => [...state.pairs.values()])
    expect(pairs.reduce((sum, pair) => sum + pair.lend.born, 0)).toBeGreaterThan(50)
    const keys = states.flatMap((state) => [...state.keys.values()])
    expect(keys.filter((key) => key.offer !== null).length).toBeGreaterThan(0)
    const planners = results.map(({ world }) => world.planner)
    expect(planners.reduce((sum, { epochs }) => sum + epochs, 0)).toBeGreaterThan(5)
    expect(planners.reduce((sum, { removals }) => sum + removals, 0)).toBeGreaterThan(2)
  })
})
