/** Every rule of enforcement is needed, and together they are enough, against a caller who strikes at each move. */
import { describe, expect, it } from 'vitest'
import { ENFORCEMENT_HUNTS, hunt } from '../kills.ts'
import { eachSeed } from '../seeds.ts'
import { play } from './drama.ts'

describe.each([
  ['token_bucket', 1_000],
  ['leaky_bucket', 200],
  ['fixed_window', 1_000],
  ['sliding_window', 200],
  ['sliding_log', 200],
] as const)('%s', (algorithm, plays) => {
  it('never passes the limit, whatever moves, ends, restarts and changes', () => {
    eachSeed(plays, (seed) => expect(play(algorithm, seed)).toBe(0))
  })
})

describe('enforcement in which', () => {
  it.each(ENFORCEMENT_HUNTS)('$rule is caught', (one) => {
    expect(hunt(one), `no seed up to ${one.seedsMax} shows it`).not.toBeNull()
  })
})
