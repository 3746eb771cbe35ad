/**
 * The promises of ARCHITECTURE.md over random commands: PROTOCOL I1 to I6 are INV-1 to INV-6, I8 is INV-7, I9 is INV-11;
 * I7 is INV-10, of `admission-invariants.test.ts`. The ledgers are the real ones; the simulation holds every promise to
 * account after each of its steps. A failure names the invariant, the seed and the commands that are left of it.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MUTANTS, type Mutant, type MutantName } from '../../simulation/mutants.ts'
import { COMMANDS } from './commands.ts'
import { calm, Play, setting } from './play.ts'

const commands = fc.commands(COMMANDS, { maxCommands: 80, size: 'max' })

describe('after any commands to two or three regions', () => {
  it('pairs, pool, floors, bases, buckets, windows and fences hold (INV-1 to INV-7)', () => {
    fc.assert(
      fc.property(setting, commands, (given, list) => {
        fc.modelRun(() => ({ model: {}, real: new Play(given) }), list)
      }),
      { numRuns: 20 },
    )
  })

  it('all regions come to know the same and shares to rest once links are whole and demand constant (INV-11)', () => {
    fc.assert(
      fc.property(setting, commands, calm, (given, list, demand) => {
        const play = new Play(given)
        fc.modelRun(() => ({ model: {}, real: play }), list)
        play.do(() => play.settle(demand))
      }),
      { numRuns: 8 },
    )
  })
})

type Search = typeof search extends fc.Arbitrary<infer Drawn> ? Drawn : never
const search = fc.tuple(setting, commands, calm)

/** The seeds of the searches below are fixed: so many of them suffice, whatever becomes of the ledger. */
const SEARCHES_MAX = 300

/** Whether the commands come to break just this invariant; others that break on the way do not count. */
function isFound(invariant: string, play: (drawn: Search) => void): boolean {
  const breaksIt = (drawn: Search): boolean => {
    try {
      play(drawn)
      return false
    } catch (err) {
      return err instanceof Error && err.message.startsWith(`${invariant} `)
    }
  }
  const { failed } = fc.check(
    fc.property(search, (drawn) => !breaksIt(drawn)),
    { numRuns: SEARCHES_MAX, seed: 1, endOnFailure: true },
  )
  return failed
}

const lendsItsFloor: Mutant = {
  beforeStep: (state) => {
    const limits = [...(state.limits ?? [])].map(
      ([id, limit]) => [id, { ...limit, floorPercent: 0 }] as const,
    )
    return { ...state, limits: state.limits === null ? null : new Map(limits) }
  },
}

const tellsNoReturns: Mutant = {
  onSend: (record) => ({ ...record, rows: record.rows.map((row) => ({ ...row, gaveBack: {} })) }),
}

describe('the same commands find out that', () => {
  it.each<[string, MutantName]>([
    ['INV-1', 'a lender does not wait for the slowest clock'],
    ['INV-1', 'terms are not durable'],
    ['INV-2', 'a refused shrink is told of nevertheless'],
    ['INV-2', 'a donor says that it adopted before it has'],
    ['INV-4', 'a region that was removed comes back with its state'],
    ['INV-6', 'a certificate of removal counts at once'],
    ['INV-7', 'a late write of an older fence is not refused'],
  ])('%s is broken where %s', (invariant, rule) => {
    const isBroken = isFound(invariant, ([given, list]) => {
      fc.modelRun(() => ({ model: {}, real: new Play(given, MUTANTS[rule]) }), list)
    })
    expect(isBroken).toBe(true)
  })

  it('INV-3 is broken where a region lends its floor', () => {
    const isBroken = isFound('INV-3', ([given, list]) => {
      fc.modelRun(() => ({ model: {}, real: new Play(given, lendsItsFloor) }), list)
    })
    expect(isBroken).toBe(true)
  })

  it('INV-11 is broken where a borrower tells no returns', () => {
    const isBroken = isFound('INV-11', ([given, list, demand]) => {
      const play = new Play(given, tellsNoReturns)
      fc.modelRun(() => ({ model: {}, real: play }), list)
      play.do(() => play.settle(demand))
    })
    expect(isBroken).toBe(true)
  })
})
