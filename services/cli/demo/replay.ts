import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import type { Sink } from '../io.ts'
import type { DescriptorBody } from '../plane/enforced.ts'
import { exampleSplit } from '../plane/seed.ts'
import type { Plane } from '../plane/topology.ts'
import type { ReferenceLimit } from './check-record.ts'
import type { Collector } from './collector.ts'
import { playOrders } from './load.ts'
import { measure } from './measure.ts'
import type { ShiftReport } from './shift.ts'
import type { Trace } from './trace.ts'

/** A replay takes about this long unless a speed is given. */
const REPLAY_MS = 40_000

/** The limit over all clients, as a part of the trace's mean rate: low enough that busy stretches meet it. */
const GLOBAL_PART_OF_MEAN = 0.9

/** A client may send this many requests in each such window; most clients never do, crawlers do. */
const CLIENT_CAPACITY = 20
const CLIENT_WINDOW_MS = 10_000

const DOMAIN = 'replay'
const EVERYONE = [{ key: 'site', value: 'all' }]

export interface ReplayPlan {
  readonly speed: number
  readonly durationMs: number
  /** Checks a second over all clients. */
  readonly capacity: number
}

export interface RegionTotals {
  readonly region: string
  readonly offered: number
  readonly admitted: number
  readonly denied: number
}

/** The fields of the demo's report, and what only a replay has. */
export interface ReplayReport extends ShiftReport {
  readonly speed: number
  readonly clients: number
  readonly regions: readonly RegionTotals[]
  readonly limits: readonly { readonly name: string; readonly overshoot: number }[]
}

export interface ReplayResult {
  readonly report: ReplayReport
  readonly failed: number
}

/** How fast to replay a trace, and the limits that make sense at that speed. */
export function planReplay(trace: Trace, speed: number | null): ReplayPlan {
  const first = trace.requests[0]?.timeMs ?? 0
  const spanMs = Math.max(1, (trace.requests.at(-1)?.timeMs ?? 0) - first)
  const chosen = speed ?? Math.max(1, Math.round(spanMs / REPLAY_MS))
  const durationMs = spanMs / chosen
  const mean = (1_000 * trace.requests.length) / Math.max(1_000, durationMs)
  const capacity = Math.max(10, Math.round(GLOBAL_PART_OF_MEAN * mean))
  return { speed: chosen, durationMs, capacity }
}

/** Two lines on what is about to happen. */
export function announceReplay(trace: Trace, plan: ReplayPlan): string {
  const seconds = Math.ceil(plan.durationMs / 1_000)
  const { requests, clients, regions } = trace
  return [
    `${requests.length} recorded requests of ${clients} clients are sent again as checks in ${regions.join(', ')}, ${plan.speed} times as fast: ${seconds} s.`,
    `Each client may send ${CLIENT_CAPACITY} in ${CLIENT_WINDOW_MS / 1_000} s, and all together ${plan.capacity} a second, wherever they come from.`,
  ].join('\n')
}

/** Sends a trace through the plane under a limit per client and one for all, and judges both. */
export async function runReplay(
  plane: Plane,
  trace: Trace,
  plan: ReplayPlan,
  options: { readonly screen: Sink; readonly signal: AbortSignal },
): Promise<ReplayResult> {
  const { signal } = options
  const collector = await measure(
    {
      plane,
      regions: trace.regions,
      policies: replayPolicies(trace.regions, plan),
      probe: descriptorsOf('nobody'),
      limits: referenceLimits(plan),
      endMs: plan.durationMs,
      screen: options.screen,
      noteAt: (nowMs) => clockOf(trace, plan, nowMs),
      signal,
    },
    (sender, originMs) => playOrders(ordersOf(trace, plan), sender, { originMs, signal }),
  )
  return { report: report(collector, trace, plan), failed: collector.failed }
}

function ordersOf(trace: Trace, plan: ReplayPlan) {
  const firstMs = trace.requests[0]?.timeMs ?? 0
  const indexOf = new Map(trace.regions.map((region, i) => [region, i]))
  return trace.requests.map((request) => ({
    dueMs: (request.timeMs - firstMs) / plan.speed,
    region: indexOf.get(request.region) ?? 0,
    client: request.client,
    descriptors: descriptorsOf(request.client),
  }))
}

function descriptorsOf(client: string): readonly DescriptorBody[] {
  return [{ entries: EVERYONE }, { entries: [{ key: 'client', value: client }] }]
}

/** The limits as the collector judges them. */
function referenceLimits({ capacity }: ReplayPlan): readonly ReferenceLimit[] {
  return [
    {
      name: 'everyone',
      rule: { algorithm: 'token_bucket', capacity, windowMs: 1_000, burst: capacity },
      counterOf: () => '',
    },
    {
      name: 'per-client',
      rule: {
        algorithm: 'fixed_window',
        capacity: CLIENT_CAPACITY,
        windowMs: CLIENT_WINDOW_MS,
      },
      counterOf: (check) => check.client,
    },
  ]
}

function replayPolicies(
  regions: readonly string[],
  { capacity }: ReplayPlan,
): readonly [PolicyInput, PolicyInput] {
  const split = exampleSplit(regions)
  const common = {
    domain: DOMAIN,
    description: '',
    onStoreFailure: 'deny',
    mode: 'strict',
  } as const
  const limit = { split, floorPercent: 2 }
  return [
    {
      ...common,
      name: 'everyone',
      match: EVERYONE,
      limits: [
        {
          ...limit,
          name: 'per-second',
          algorithm: 'token_bucket',
          capacity,
          windowMs: 1_000,
        },
      ],
    },
    {
      ...common,
      name: 'per-client',
      match: [{ key: 'client' }],
      limits: [
        {
          ...limit,
          name: 'per-ten-seconds',
          algorithm: 'fixed_window',
          capacity: CLIENT_CAPACITY,
          windowMs: CLIENT_WINDOW_MS,
        },
      ],
    },
  ]
}

function report(collector: Collector, trace: Trace, plan: ReplayPlan): ReplayReport {
  const limits = collector.overshoots()
  const regions = trace.regions.length
  return {
    limit: plan.capacity,
    admittedMaxPerSecond: collector.admittedMaxPerSecond(),
    overshoot: Math.max(...limits.map(({ overshoot }) => overshoot)),
    splitBefore: Object.values(exampleSplit(trace.regions)),
    splitAfter: collector.split(0, Number.POSITIVE_INFINITY, regions),
    // Recorded traffic has no one turn to measure from.
    convergenceMs: null,
    utilisation: Math.round(10_000 * collector.utilisation()) / 10_000,
    checks: collector.answered.length,
    checkP50Ms: collector.roundTripMs(0.5),
    checkP99Ms: collector.roundTripMs(0.99),
    speed: plan.speed,
    clients: trace.clients,
    regions: trace.regions.map((region, i) => totalsOf(collector, region, i)),
    limits,
  }
}

function totalsOf(collector: Collector, region: string, index: number): RegionTotals {
  const own = collector.answered.filter((check) => check.region === index)
  const admitted = own.filter((check) => check.outcome === 'admitted').length
  return { region, offered: own.length, admitted, denied: own.length - admitted }
}

/** The instant of the recording that is being replayed. */
function clockOf(trace: Trace, plan: ReplayPlan, nowMs: number): string {
  const atMs = (trace.requests[0]?.timeMs ?? 0) + nowMs * plan.speed
  return new Date(atMs).toISOString().slice(0, 16).replace('T', ' ')
}
