import type { Link } from '../world/network.ts'
import { GOOD_LINK } from '../world/network.ts'
import { addCallers, type CallerSpec, type Demand } from '../world/traffic.ts'
import type { LimitSpec, World, WorldSpec } from '../world/world.ts'

/**
 * What a variant must reach; `npm run sim -- --check` fails where it does not. Shares of 1, as the outcome has them.
 * That nothing passes its limit is a target of every variant and is not repeated here.
 */
export interface Target {
  readonly utilisation?: number
  readonly utilisationPartitionAware?: number
  /** Of what a perfect allocator would hand out to those who want it. */
  readonly handedOut?: number
  /** The 95th percentile over the seeds. */
  readonly convergenceMs?: number
  /** Runs that a target is judged over; figures are means, but for the percentile. */
  readonly seeds?: number
}

/** One world of a scenario. */
export interface Variant {
  readonly name: string
  readonly spec: WorldSpec
  /** Takes minutes: run only when asked for. */
  readonly isLong?: boolean
  /** What somebody else published for this, with its source's own measure. */
  readonly published?: string
  readonly target?: Target
}

export interface Scenario {
  readonly id: string
  readonly title: string
  readonly variants: readonly Variant[]
}

/** The limit of most scenarios: 1,000 a second, with bursts of a fifth of that. */
export const THOUSAND: LimitSpec = bucket(1_000, 200)

export function bucket(perSecond: number, burst: number, floorPercent?: number): LimitSpec {
  const limit = { algorithm: 'token_bucket', capacity: perSecond, windowMs: 1_000, burst } as const
  return floorPercent === undefined ? limit : { ...limit, floorPercent }
}

export function perWindow(capacity: number, windowMs: number): LimitSpec {
  return { algorithm: 'fixed_window', capacity, windowMs, burst: capacity }
}

export function linkOf(delayMs: number): Link {
  return { ...GOOD_LINK, delayMs, jitterMs: delayMs / 10 }
}

/** A demand for each region; Poisson unless the callers say otherwise. */
export function demands(
  shapes: readonly Demand[],
  callers: CallerSpec = {},
): (world: World) => void {
  return (world) => {
    shapes.forEach((demand, region) => {
      addCallers(world, region, demand, callers)
    })
  }
}

export function steady(perSecond: number): Demand {
  return () => perSecond
}

export function steadies(...perSecond: readonly number[]): (world: World) => void {
  return demands(perSecond.map(steady))
}

export function repeated<T>(count: number, item: T): readonly T[] {
  return Array.from({ length: count }, () => item)
}
