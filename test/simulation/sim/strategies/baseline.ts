import { EPOCH_US } from '../world/epoch.ts'
import type { World } from '../world/world.ts'
import type { Attempt, Outcome, RegionFaults, Strategy } from './strategy.ts'

/** What all strategies without daemons have in common: exact clocks and nothing that could crash. */
export abstract class Baseline implements Strategy {
  abstract readonly name: string
  readonly faults: readonly RegionFaults[] = []
  readonly admin = null
  protected readonly world: World

  constructor(world: World) {
    this.world = world
  }

  abstract check(attempt: Attempt): Outcome
  abstract shareOf(region: number): number

  start(): void {}

  isReachable(_region: number): boolean {
    return true
  }

  labelUs(_region: number): number {
    return this.wallUs()
  }

  protected wallUs(): number {
    return this.world.queue.nowUs - this.world.startUs + EPOCH_US
  }

  /** Repeats `act` for each region, each at a phase of its own. */
  protected everyRegion(periodMs: number, act: (region: number) => void): void {
    const prng = this.world.prng.fork('phases')
    this.world.regions.forEach((_, region) => {
      const again = (): void => {
        act(region)
        this.world.queue.after(periodMs * 1_000, again)
      }
      this.world.queue.after(prng.next() * periodMs * 1_000, again)
    })
  }

  /** Sends figures to every other region. */
  protected tell(from: number, figures: readonly number[], hear: (to: number) => void): void {
    const text = JSON.stringify({ v: 1, from: this.world.regions[from], at: 0, rows: figures })
    this.world.countMessage(text.length)
    this.world.regions.forEach((_, to) => {
      if (to !== from) this.world.network.send(from, to, () => hear(to))
    })
  }
}

export function zeros(count: number): number[] {
  return Array.from({ length: count }, () => 0)
}
