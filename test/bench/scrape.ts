/**
 * How long one reading of `/metrics` keeps an enforcer from its checks, with a thousand policies and after a million
 * distinct keys, beside prom-client's own text of as many series.
 */
import { Counter, Registry } from 'prom-client'
import { CheckObserver } from '../../services/enforcer/check-observer.ts'
import { DecisionLog } from '../../services/enforcer/decision-log.ts'
import { runCheck } from '../../services/enforcer/run-check.ts'
import { systemClock } from '../../shared/runtime/clock.ts'
import { callsPerSecond, type Prepared } from './measure.ts'
import { bucketPolicy, startBenchRegion } from './region.ts'

const POLICIES = 1_000
const KEYS = 1_000_000
const CONCURRENCY = 512

export async function scrape(): Promise<Prepared> {
  const policy = bucketPolicy(100, 60_000)
  const policies = Array.from({ length: POLICIES }, (_, id) => ({
    ...policy,
    id: id + 1,
    domain: `api-${id}`,
    limits: policy.limits.map((limit) => ({ ...limit, id: id + 1 })),
  }))
  const region = await startBenchRegion(...policies)
  const observer = new CheckObserver(new DecisionLog(systemClock), undefined)
  const inFlight = { count: 0, max: CONCURRENCY }
  const runner = { context: region.context, observer, inFlight }
  const call = (index: number): Promise<unknown> => {
    const entries = [{ key: 'tenant', value: `tenant-${index}` }]
    return runCheck(runner, {
      domain: `api-${index % POLICIES}`,
      descriptors: [{ entries }],
      cost: 1,
    })
  }
  await callsPerSecond({ concurrency: CONCURRENCY, calls: KEYS, call })
  const plain = await plainRegistry(region.registry)
  return {
    contest: {
      name: 'scrape',
      unit: 'ms',
      peerName: 'the same series by prom-client alone',
      ours: () => msToRead(region.registry),
      peer: () => msToRead(plain),
    },
    stop: () => region.stop(),
  }
}

async function msToRead(registry: Registry): Promise<number> {
  const beganMs = performance.now()
  await registry.metrics()
  return performance.now() - beganMs
}

/** The counters of `registry`, which are nearly all of its series, as prom-client keeps and writes them. */
async function plainRegistry(registry: Registry): Promise<Registry> {
  const plain = new Registry()
  plain.setDefaultLabels({ region: 'here' })
  for (const { name, help, type, values } of await registry.getMetricsAsJSON()) {
    if (String(type) !== 'counter') continue
    const labelNames = Object.keys(values[0]?.labels ?? {}).filter((label) => label !== 'region')
    const counter = new Counter({ name, help, labelNames, registers: [plain] })
    for (const { labels, value } of values) {
      const { region: _, ...own } = labels
      counter.inc(own, value)
    }
  }
  return plain
}
