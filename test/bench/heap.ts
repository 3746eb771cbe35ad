/**
 * An enforcer's heap after ever more distinct keys, beside what it was after the first million. What it keeps of keys is
 * bounded, so the ratio stays near 1, up and down by the older half of the routes, which is let go at once.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { decide } from '../../services/enforcer/decide.ts'
import { callsPerSecond, type Prepared } from './measure.ts'
import { PER_TENANT, startBenchRegion } from './region.ts'

const FIRST_KEYS = 1_000_000
const MORE_KEYS = 200_000
const CONCURRENCY = 512

export async function heap(): Promise<Prepared> {
  const region = await startBenchRegion(PER_TENANT)
  let keys = 0
  const ask = (): Promise<unknown> => {
    const entries = [{ key: 'tenant', value: `tenant-${keys++}` }]
    return decide(region.context, { domain: 'api', descriptors: [{ entries }], cost: 1 })
  }
  const askFor = (calls: number): Promise<number> =>
    callsPerSecond({ concurrency: CONCURRENCY, calls, call: ask })
  await askFor(FIRST_KEYS)
  const first = heapMb()
  return {
    contest: {
      name: 'heap',
      unit: 'MB',
      peerName: 'the same after its first million keys',
      async ours() {
        await askFor(MORE_KEYS)
        return heapMb()
      },
      peer: async () => first,
    },
    stop: () => region.stop(),
  }
}

/** After all garbage is gone. */
function heapMb(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed / 1_000_000
}
