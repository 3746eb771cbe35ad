/** Every rule of enforcement is needed, and together they are enough, against a caller who strikes at each move. */
import { describe, expect, it } from 'vitest'
import { ENFORCEMENT_HUNTS, hunt } from '../kills.ts'
import { eachSeed } from '../seeds.ts'
import { play } from './drama.ts'

describe.each(['token_bucket', 'fixed_window'] as const)('%s', (algorithm) => {
  it('never passes the limit, whatever moves, ends, restarts and changes', () => {
    eachSeed(1_000, (seed) => expect(play(algorithm, seed)).toBe(0))
  })
})

describe('enforcement in which', () => {
  it.each(ENFORCEMENT_HUNTS)('$rule is caught', (one) => {
    expect(hunt(one), `no seed up to ${one.seedsMax} shows it`).not.toBeNull()
  })
})
