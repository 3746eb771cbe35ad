import type { Algorithm as AlgorithmName, RegionLimit } from '../policy.ts'
import type { Algorithm, Settled } from './algorithm.ts'
import { concurrency } from './concurrency.ts'
import { fixedWindow } from './fixed-window.ts'
import { leakyBucket } from './leaky-bucket.ts'
import { slidingCounter } from './sliding-counter.ts'
import { slidingLog } from './sliding-log.ts'
import { slidingWindow } from './sliding-window.ts'
import { tokenBucket } from './token-bucket.ts'

/** An algorithm with its types forgotten, for callers that keep the states of several. */
export type AnyAlgorithm = Algorithm<unknown, Settled>

const ALGORITHMS: Readonly<Record<AlgorithmName, unknown>> = {
  token_bucket: tokenBucket,
  leaky_bucket: leakyBucket,
  fixed_window: fixedWindow,
  sliding_window: slidingWindow,
  sliding_log: slidingLog,
  sliding_counter: slidingCounter,
  concurrency,
}

/** How a limit is held. A state may be given back to the algorithm that stored it, and to no other. */
export function algorithmOf(limit: RegionLimit): AnyAlgorithm {
  return ALGORITHMS[limit.algorithm] as AnyAlgorithm
}
