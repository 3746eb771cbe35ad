import type { Admin } from '../region/admin.ts'
import type { StoreLink } from '../region/process.ts'
import type { RegionRedis } from '../region/region-redis.ts'
import type { World } from '../world/world.ts'

/** `unavailable`: no limiter answered. `pending`: the answer comes later through `World.settle`. */
export type Outcome = 'admitted' | 'denied' | 'unavailable' | 'pending'

export interface Attempt {
  readonly region: number
  readonly key: number
  readonly cost: number
  readonly onAnswer: ((isAllowed: boolean) => void) | null
}

/** What can be done to a region that has a daemon and a Redis of its own. */
export interface RegionFaults {
  /** Only of the product's shares. */
  readonly redis?: RegionRedis
  killDaemon(): void
  startDaemon(): void
  stopDaemon(): void
  resumeDaemon(): void
  setStoreLink(link: StoreLink): void
  /** Redis dies and stays dead. */
  crash(): void
  /** Redis dies and comes back empty after `downMs`. */
  wipe(downMs: number): void
  /** Redis dies in `lagMs` and comes back, `downMs` after that, as it is at present. */
  restartRedis(fault: { readonly lagMs: number; readonly downMs: number }): void
  /** In `lagMs` a replica takes over that is as Redis is at present. */
  failOver(fault: { readonly lagMs: number; readonly keepsScripts: boolean }): void
  /** The wall clock that labels windows and dates buckets. */
  stepClock(byMs: number): void
}

/** One way to hold a limit in several regions; all run in the same worlds, before the same callers. */
export interface Strategy {
  readonly name: string
  start(): void
  check(attempt: Attempt): Outcome
  /** True while there is a limiter to ask in the region at all. */
  isReachable(region: number): boolean
  /** Part of the limit that the region may use of the first key now; for the drawing and the churn. */
  shareOf(region: number): number
  /** The clock that labels windows in the region. */
  labelUs(region: number): number
  /** Only of strategies that have daemons. */
  readonly faults: readonly RegionFaults[]
  readonly admin: Admin | null
}

export type StrategyFactory = (world: World) => Strategy
