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
/** Many short rounds: what is looked for is smaller than what a busy host takes from one round or another. */
const CALLS = 50_000
const ROUNDS = 31
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
  const timer = { begin: () => null, end() {} }
  const bare = { ...region.context, metrics: { ...region.context.metrics, timer } }
  await perSecond(bare)
  await perSecond(region.context)
  let sinceScrapeMs = 0
  return {
    contest: {
      name: 'metrics-cost',
      unit: 'checks/s',
      peerName: 'the same without timing and scrapes',
      rounds: ROUNDS,
      async ours() {
        const beganMs = performance.now()
        if (sinceScrapeMs >= SCRAPE_MS) {
          sinceScrapeMs = 0
          void region.registry.metrics()
        }
        const rate = await perSecond(region.context)
        sinceScrapeMs += performance.now() - beganMs
        return rate
      },
      peer: () => perSecond(bare),
    },
    stop: () => region.stop(),
  }
}
