import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import { AdminClient } from '../admin-client.ts'
import type { Sink } from '../io.ts'
import { type DescriptorBody, whenEnforced } from '../plane/enforced.ts'
import type { Plane } from '../plane/topology.ts'
import { applyPolicy } from '../policy-client.ts'
import type { ReferenceLimit } from './check-record.ts'
import { CheckSender } from './check-sender.ts'
import { Collector } from './collector.ts'
import { LiveCounts } from './live-counts.ts'
import { LiveScreen } from './live-screen.ts'
import { offerLoad } from './load.ts'
import { showEachSecond } from './show.ts'

/**
 * Fresh processes run their first thousands of checks many times slower, and nobody's limit is about that. So
 * checks that spend nothing go first, slice by slice, until most of a slice is answered quickly. The bound is
 * for machines on which that never happens.
 */
const WARM_UP_SLICE_MS = 500
const WARM_UP_SLICES_MIN = 3
const WARM_UP_SLICES_MAX = 16
const WARM_UP_PER_SECOND = 600
const QUICK_MS = 20
const QUICK_PART = 0.9

export interface Run {
  readonly plane: Plane
  /** Regions in the order of the checks' region index; an enforcer of each is asked. */
  readonly regions: readonly string[]
  /** Policies of one domain; the shares of the first one's first limit are shown. */
  readonly policies: readonly [PolicyInput, ...PolicyInput[]]
  /** Descriptors that each of the policies decides. */
  readonly probe: readonly DescriptorBody[]
  /** The policies' limits as the collector judges them. */
  readonly limits: readonly ReferenceLimit[]
  readonly endMs: number
  /** Where to show the run second by second; null shows nothing. */
  readonly screen: Sink | null
  readonly noteAt: (nowMs: number) => string
  readonly signal: AbortSignal
}

/** Applies the policies, warms the plane up, lets `play` send checks, and hands over what was answered. */
export async function measure(
  run: Run,
  play: (sender: CheckSender, originMs: number) => Promise<void>,
): Promise<Collector> {
  const { plane, regions, policies, signal } = run
  const [policy] = policies
  const { domain } = policy
  const client = new AdminClient({ ...plane.admin, signal })
  const urls = regions.map((region) => enforcerUrl(plane, region))
  for (const document of policies) await applyPolicy(client, document)
  const decisions = policies.reduce((sum, { limits }) => sum + limits.length, 0)
  await whenEnforced(urls, { domain, descriptors: run.probe, decisions }, signal)
  run.screen?.write('Warming up, with checks that spend nothing\n')
  await warmUp(run, domain, urls)

  const originMs = performance.now()
  const collector = new Collector(run.limits, performance.timeOrigin + originMs)
  const counts = new LiveCounts(regions.length)
  const onRecord: ConstructorParameters<typeof CheckSender>[0]['onRecord'] = (record) => {
    collector.add(record)
    counts.add(record)
  }
  const sender = new CheckSender({ domain, urls, cost: 1, originMs, onRecord })
  const { screen, noteAt, endMs } = run
  const showing =
    screen &&
    showEachSecond({
      screen: new LiveScreen(screen),
      ...{ client, policy, regions, counts, originMs, endMs, signal, noteAt },
    })
  await play(sender, originMs)
  await sender.close()
  await showing
  signal.throwIfAborted()
  return collector
}

async function warmUp(run: Run, domain: string, urls: readonly string[]): Promise<void> {
  for (let slice = 1; slice <= WARM_UP_SLICES_MAX; slice++) {
    const quickPart = await sendSlice(run, domain, urls)
    if (run.signal.aborted || (slice >= WARM_UP_SLICES_MIN && quickPart >= QUICK_PART)) return
  }
}

/** Sends reading checks for one slice, and gives the part of them that were answered quickly. */
async function sendSlice(run: Run, domain: string, urls: readonly string[]): Promise<number> {
  const originMs = performance.now()
  let all = 0
  let quick = 0
  const sender = new CheckSender({
    domain,
    urls,
    cost: 0,
    originMs,
    onRecord({ sentMs, receivedMs, outcome }) {
      all++
      if (outcome !== 'failed' && receivedMs - sentMs <= QUICK_MS) quick++
    },
  })
  const phases = [{ fromMs: 0, offered: urls.map(() => WARM_UP_PER_SECOND) }]
  await offerLoad({ phases, endMs: WARM_UP_SLICE_MS }, sender, {
    originMs,
    client: '',
    descriptors: run.probe,
    signal: run.signal,
  })
  await sender.close()
  return all === 0 ? 0 : quick / all
}

function enforcerUrl(plane: Plane, region: string): string {
  return plane.regions.find((running) => running.region === region)?.enforcers[0]?.url ?? ''
}
