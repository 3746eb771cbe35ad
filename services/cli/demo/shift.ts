import type { PolicyInput } from '../../../shared/protocol/policy.ts'
import type { Sink } from '../io.ts'
import type { Plane } from '../plane/topology.ts'
import { listed } from '../table.ts'
import type { ReferenceLimit } from './check-record.ts'
import type { Collector } from './collector.ts'
import { type Load, offeredAt, offerLoad } from './load.ts'
import { measure } from './measure.ts'

/** About 1,000 a second, offered 1.2 times that: enough to see, and fits two cores beside the plane itself. */
const CAPACITY = 1_000
const OFFERED_PER_SECOND = 1_200

/** A tenth of a second's worth: room for the unevenness of arrivals, and no hiding place for an overshoot. */
const BURST = 100

/** Per cent of the load in the first region before and after the turn; the other regions have the rest. */
const FIRST_BEFORE = 60
const FIRST_AFTER = 10

/** The turn comes after this part of the run. */
const TURN_AT = 0.4

/** The split is taken over this long at the end of each half, when the shares have settled. */
const SPLIT_SPAN_MS = 4_000

const DOMAIN = 'demo'
const CLIENT = 'checkout'
const DESCRIPTORS = [{ entries: [{ key: 'service', value: CLIENT }] }]

/** What `demo --json` prints. Every figure is measured from what the enforcers answered. */
export interface ShiftReport {
  readonly limit: number
  readonly admittedMaxPerSecond: number
  readonly overshoot: number
  readonly splitBefore: readonly number[]
  readonly splitAfter: readonly number[]
  /** Null when the load was never followed to 95 %. */
  readonly convergenceMs: number | null
  readonly utilisation: number
  readonly checks: number
  readonly checkP50Ms: number
  readonly checkP99Ms: number
}

export interface ShiftResult {
  readonly report: ShiftReport
  readonly failed: number
  /** Checks that the load was to offer. */
  readonly planned: number
}

/** A load with one turn. */
export interface TurningLoad extends Load {
  readonly turnMs: number
}

/** The load that the demo offers in a run of `seconds`. */
export function demoLoad(regions: number, seconds: number): TurningLoad {
  const share = (first: number): readonly number[] =>
    Array.from({ length: regions }, (_, region) => {
      if (regions === 1) return OFFERED_PER_SECOND
      const part = region === 0 ? first : (100 - first) / (regions - 1)
      return (OFFERED_PER_SECOND * part) / 100
    })
  const endMs = seconds * 1_000
  const turnMs = Math.round(TURN_AT * endMs)
  const phases = [
    { fromMs: 0, offered: share(FIRST_BEFORE) },
    { fromMs: turnMs, offered: share(FIRST_AFTER) },
  ]
  return { phases, turnMs, endMs }
}

/** Two lines on what is about to happen. */
export function announceShift(regions: readonly string[], seconds: number): string {
  const load = demoLoad(regions.length, seconds)
  const [first = ''] = regions
  return [
    `${listed(regions)} share one limit of ${CAPACITY} checks a second; together they are offered ${OFFERED_PER_SECOND} for ${seconds} s.`,
    `After ${load.turnMs / 1_000} s the load leaves ${first} (${FIRST_BEFORE} % of it, then ${FIRST_AFTER} %): the shares follow it, and the sum never passes the limit (in one second that is 1,000 and at most what the burst had left).`,
  ].join('\n')
}

/** Drives the plane with a load that turns from one region to the others, and measures what it does. */
export async function runShift(
  plane: Plane,
  options: { readonly seconds: number; readonly screen: Sink; readonly signal: AbortSignal },
): Promise<ShiftResult> {
  const { signal } = options
  const regions = plane.regions.map(({ region }) => region)
  const load = demoLoad(regions.length, options.seconds)
  const collector = await measure(
    {
      plane,
      regions,
      policies: [demoPolicy(regions)],
      probe: DESCRIPTORS,
      limits: [referenceLimit()],
      endMs: load.endMs,
      screen: options.screen,
      noteAt: (nowMs) => noteAt(load, nowMs),
      signal,
    },
    (sender, originMs) =>
      offerLoad(load, sender, { originMs, client: CLIENT, descriptors: DESCRIPTORS, signal }),
  )
  const planned = options.seconds * OFFERED_PER_SECOND
  return { report: report(collector, load, regions.length), failed: collector.failed, planned }
}

function report(collector: Collector, load: TurningLoad, regions: number): ShiftReport {
  const { turnMs, endMs } = load
  const [bucket] = collector.overshoots()
  return {
    limit: CAPACITY,
    admittedMaxPerSecond: collector.admittedMaxPerSecond(),
    overshoot: bucket?.overshoot ?? 0,
    splitBefore: collector.split(Math.max(0, turnMs - SPLIT_SPAN_MS), turnMs, regions),
    splitAfter: collector.split(Math.max(turnMs, endMs - SPLIT_SPAN_MS), endMs, regions),
    convergenceMs: collector.convergenceMs(turnMs),
    utilisation: Math.round(10_000 * collector.utilisation()) / 10_000,
    checks: collector.answered.length,
    checkP50Ms: collector.roundTripMs(0.5),
    checkP99Ms: collector.roundTripMs(0.99),
  }
}

/** The limit as the collector judges it. */
function referenceLimit(): ReferenceLimit {
  const rule = {
    algorithm: 'token_bucket',
    capacity: CAPACITY,
    windowMs: 1_000,
    burst: BURST,
  } as const
  return { name: 'demo', rule, counterOf: () => '' }
}

function demoPolicy(regions: readonly string[]): PolicyInput {
  const rest = Math.floor((100 - FIRST_BEFORE) / Math.max(1, regions.length - 1))
  const first = 100 - rest * (regions.length - 1)
  return {
    domain: DOMAIN,
    name: 'checkout',
    description: 'The limit that the demo drives.',
    match: [{ key: 'service' }],
    // A decision without the store would be outside the limit, and the demo is about the limit.
    onStoreFailure: 'deny',
    mode: 'strict',
    limits: [
      {
        name: 'per-second',
        algorithm: 'token_bucket',
        capacity: CAPACITY,
        windowMs: 1_000,
        burst: BURST,
        split: Object.fromEntries(regions.map((region, i) => [region, i === 0 ? first : rest])),
        floorPercent: 2,
      },
    ],
  }
}

function noteAt(load: TurningLoad, nowMs: number): string {
  const offered = offeredAt(load, nowMs).map((rate) =>
    Math.round((100 * rate) / OFFERED_PER_SECOND),
  )
  return `load ${offered.join('/')}${nowMs < load.turnMs ? '' : ', turned'}`
}
