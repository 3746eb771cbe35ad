import { assert } from '../assert.ts'
import type { Algorithm as AlgorithmName, RegionLimit } from '../policy.ts'
import type { Algorithm, Settled } from './algorithm.ts'
import { fixedWindow } from './fixed-window.ts'
import { tokenBucket } from './token-bucket.ts'

/** An algorithm with its types forgotten, for callers that keep the states of several. */
export type AnyAlgorithm = Algorithm<unknown, Settled>

const ALGORITHMS: Readonly<Partial<Record<AlgorithmName, unknown>>> = {
  token_bucket: tokenBucket,
  fixed_window: fixedWindow,
}

/** Whether there is a file for it here and in `lua`; a policy with another one is refused when it is saved. */
export function isHeld(name: AlgorithmName): boolean {
  return ALGORITHMS[name] !== undefined
}

/** How a limit is held. A state may be given back to the algorithm that stored it, and to no other. */
export function algorithmOf(limit: RegionLimit): AnyAlgorithm {
  const found = ALGORITHMS[limit.algorithm]
  assert(found !== undefined, 'a limit that was saved can be held')
  return found as AnyAlgorithm
}
