/**
 * Checks a second with everything counted, timed and scraped once a second, beside the same checks without clock,
 * histogram and scrapes. Counts themselves are plain numbers, which nothing can be measured without.
 */
import { CheckObserver } from '../../services/enforcer/check-observer.ts'
import { DecisionLog } from '../../services/enforcer/decision-log.ts'
import { runCheck } from '../../services/enforcer/run-check.ts'
import type { DecideContext } from '../../services/enforcer/slot-group.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { type Contest, callsPerSecond } from './measure.ts'
import { PER_TENANT, startBenchRegion } from './region.ts'

const KEYS = 10_000
const CALLS = 200_000
const CONCURRENCY = 512
const SCRAPE_MS = 1_000

export async function metricsCost(): Promise<{ contest: Contest; stop(): Promise<void> }> {
  const region = await startBenchRegion(PER_TENANT)
  const requests = Array.from({ length: KEYS }, (_, id) => ({
    domain: 'api',
    descriptors: [{ entries: [{ key: 'tenant', value: `tenant-${id}` }] }],
    cost: 1,
  }))
  const perSecond = (context: DecideContext): Promise<number> => {
    const observer = new CheckObserver(new DecisionLog(systemClock), undefined)
    const runner = { context, observer, inFlight: { count: 0, max: CONCURRENCY } }
    const call = (index: number): Promise<unknown> => {
      const request = requests[index % KEYS]
      if (request === undefined) throw new Error('the list is long enough')
      return runCheck(runner, request)
    }
    return callsPerSecond({ concurrency: CONCURRENCY, calls: CALLS, call })
  }
  const duration = Object.assign(Object.create(region.context.metrics.duration), { observe() {} })
  // Never a multiple of anything, so that no check is timed.
  const begun = { count: Number.NaN }
  const bare = { ...region.context, metrics: { ...region.context.metrics, duration, begun } }
  await perSecond(bare)
  return {
    contest: {
      name: 'metrics-cost',
      unit: 'checks/s',
      peerName: 'the same without timing and scrapes',
      async ours() {
        const timer = setInterval(() => void region.registry.metrics(), SCRAPE_MS)
        try {
          return await perSecond(region.context)
        } finally {
          clearInterval(timer)
        }
      },
      peer: () => perSecond(bare),
    },
    stop: () => region.stop(),
  }
}
