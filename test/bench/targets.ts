/** What each measurement must reach, so that a change that loses it is seen by a command and not by a reader. */
import type { Measurement } from './measure.ts'

export interface Target {
  /** The ratio to the peer, or the figure itself in its unit. */
  readonly of: 'ratio' | 'ours'
  readonly atLeast?: number
  readonly atMost?: number
}

/** By measurement; one that is not here is shown for what it is beside another. */
const TARGETS: Readonly<Record<string, Target>> = {
  'distinct-keys': { of: 'ratio', atLeast: 4 },
  'hot-key': { of: 'ratio', atLeast: 3 },
  'hot-key-redis-calls': { of: 'ours', atMost: 50 },
  'http-check': { of: 'ratio', atLeast: 0.8 },
  'http-check-p99': { of: 'ratio', atMost: 2 },
  'grpc-check': { of: 'ratio', atLeast: 0.8 },
  'grpc-check-p99': { of: 'ours', atMost: 10 },
  'metrics-cost': { of: 'ratio', atLeast: 0.98 },
  scrape: { of: 'ours', atMost: 100 },
  heap: { of: 'ratio', atMost: 1.1 },
  'key-memory': { of: 'ours', atMost: 200 },
  'policy-match': { of: 'ratio', atLeast: 0.9 },
}

export interface Outcome {
  readonly isMet: boolean
  /** Such as `at least 4 in ratio: met`. */
  readonly text: string
}

/** How a measurement stands to its target; null where it has none. */
export function outcomeOf(measurement: Measurement): Outcome | null {
  const target = TARGETS[measurement.name]
  if (target === undefined) return null
  const { of, atLeast = Number.NEGATIVE_INFINITY, atMost = Number.POSITIVE_INFINITY } = target
  const figure = measurement[of]
  const isMet = figure >= atLeast && figure <= atMost
  const wanted = target.atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`
  const what = of === 'ratio' ? 'ratio' : measurement.unit
  return { isMet, text: `${what} ${wanted}: ${isMet ? 'met' : 'MISSED'}` }
}
