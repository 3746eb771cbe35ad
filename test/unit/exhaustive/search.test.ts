import { describe, expect, it } from 'vitest'
import type { Mutant } from '../../exhaustive/mutants.ts'
import { MUTANT_SCOPES, ONE_LENDER, PLANS } from '../../exhaustive/scopes.ts'
import { search } from '../../exhaustive/search.ts'
import { poolOf } from '../../exhaustive/state.ts'

/** Less than a second each; `npm run exhaustive` looks at all of it. */
const STATES_MAX = 2_000

/** Broken rules that show within a few thousand states; `npm run exhaustive -- --mutants` breaks all. */
const QUICK_MUTANTS: readonly Mutant[] = [
  'lease-dated-at-receipt',
  'no-drift-margin',
  'amnesia-without-wait',
  'delta-grants',
  'growers-do-not-wait',
  'donor-adopts-with-loans-out',
  'publishes-before-shrink',
  'returns-before-shrink',
  'lends-borrowed-units',
  'restart-forgets-waiting',
  'reclaims-without-waiting',
  'amnesiac-uses-old-base',
]
const MUTANT_STATES_MAX = 6_000

describe('the search of the lending protocol', () => {
  it.each(PLANS.map(({ scope }) => [scope.name, scope] as const))(
    'finds no violation in the first states of %s',
    (_name, scope) => {
      const result = search({ scope, mutant: null }, { statesMax: STATES_MAX })
      expect(result.violation).toBeNull()
      expect(result.states).toBeGreaterThan(STATES_MAX)
    },
  )

  it.each(PLANS.map(({ scope }) => [scope.name, scope] as const))(
    'reaches states of %s in which the whole pool is used, so that the bound means something',
    (_name, scope) => {
      const result = search({ scope, mutant: null }, { poolMax: poolOf(scope) - 1 })
      expect(result.verdict).toBe('violated')
    },
  )

  it('uses lent units: a world in which the borrower held nothing would prove nothing', () => {
    const { verdict, trace } = search({ scope: ONE_LENDER, mutant: 'reclaims-without-waiting' })
    expect(verdict).toBe('violated')
    expect(trace.slice(0, 4)).toEqual([
      'B sends a record',
      'A hears record 1 of B',
      'A lends 1 to B',
      'A sends a record',
    ])
    expect([...trace.slice(4)].sort()).toEqual([
      'A takes back what it lent to B',
      'B hears record 1 of A',
    ])
  })

  it.each(QUICK_MUTANTS)('finds out the broken rule %s', (mutant) => {
    const world = { scope: MUTANT_SCOPES[mutant], mutant }
    expect(search(world, { statesMax: MUTANT_STATES_MAX }).verdict).toBe('violated')
  })

  it('gives the same answer each time', () => {
    const once = (): unknown => search({ scope: ONE_LENDER, mutant: 'delta-grants' })
    expect(once()).toEqual(once())
  })
})
