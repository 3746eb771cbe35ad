/**
 * One plane in virtual time: callers, links, clocks and a strategy, from one seed.
 *
 * Nothing here reads a real clock or another source of randomness, so a seed repeats a run exactly.
 */
import type { Mode, Objective, RegionId } from '../../../../shared/core/policy.ts'
import { Meter } from '../meters/meter.ts'
import type { JudgedNumbers } from '../meters/reference.ts'
import type { RegionFaults, Strategy, StrategyFactory } from '../strategies/strategy.ts'
import { EventQueue } from './event-queue.ts'
import { GOOD_LINK, type Link, Network } from './network.ts'
import { Prng } from './prng.ts'

export interface LimitSpec extends JudgedNumbers {
  readonly floorPercent?: number
  readonly objective?: Objective
  /** `strict` when left out. */
  readonly mode?: Mode
  readonly relaxedPercent?: number
  /** Tokens a window beyond the limit that the bound of an eventual policy allows here; beyond them is excess. */
  readonly allowance?: number
}

export interface WorldSpec {
  readonly regions: number
  readonly limit: LimitSpec
  /** By region; equal when left out. Zero is a region without a base part. */
  readonly weights?: readonly number[]
  /** Regions that join later; they are no members at first. */
  readonly absent?: readonly number[]
  readonly keys?: number
  readonly link?: Link
  readonly durationMs: number
  readonly judge?: { readonly fromMs: number; readonly toMs: number }
  readonly stepAtMs?: number
  readonly clocks?: Partial<ClockSpec>
  readonly daemons?: number
  readonly callers: (world: World) => void
  readonly events?: (world: World) => void
}

export interface ClockSpec {
  /** Most that a clock's rate differs from 1. */
  readonly drift: number
  /** Most that a wall clock differs from real time. */
  readonly skewMs: number
}

const CLOCKS: ClockSpec = { drift: 2e-4, skewMs: 10 }

/** The plane starts before its callers, so that what is measured is not its start. */
const BOOT_US = 3_000_000

export class World {
  readonly spec: WorldSpec
  readonly seed: number
  readonly prng: Prng
  readonly queue = new EventQueue()
  readonly network: Network
  readonly meter: Meter
  readonly strategy: Strategy
  readonly clocks: ClockSpec
  readonly regions: readonly RegionId[]
  readonly weights: readonly number[]
  readonly startUs = BOOT_US
  readonly endUs: number
  /** The place of the policy store: one more than the regions. */
  readonly adminPlace: number
  readonly #listeners: ((region: number, expUs: number) => void)[] = []

  constructor(spec: WorldSpec, seed: number, createStrategy: StrategyFactory) {
    this.spec = spec
    this.seed = seed
    this.prng = new Prng(seed)
    this.clocks = { ...CLOCKS, ...spec.clocks }
    this.regions = Array.from({ length: spec.regions }, (_, index) => regionName(index))
    this.weights = normalised(spec.weights ?? this.regions.map(() => 1))
    this.endUs = BOOT_US + spec.durationMs * 1_000
    this.adminPlace = spec.regions
    const link = spec.link ?? GOOD_LINK
    this.network = new Network(this.queue, this.prng.fork('network'), spec.regions + 1, link)
    this.meter = new Meter({
      regions: this.regions,
      numbers: spec.limit,
      allowance: spec.limit.allowance ?? 0,
      weights: this.weights,
      keys: spec.keys ?? 1,
      durationMs: spec.durationMs,
      judge: spec.judge ?? { fromMs: 0, toMs: spec.durationMs },
      stepAtMs: spec.stepAtMs ?? null,
    })
    this.strategy = createStrategy(this)
  }

  run(): Meter {
    this.strategy.start()
    this.queue.runUntil(this.startUs - 1)
    // What the plane sent while it started is not part of its steady traffic.
    this.meter.bytes = 0
    this.meter.messages = 0
    this.spec.callers(this)
    this.spec.events?.(this)
    this.#sample(0)
    this.queue.runUntil(this.endUs)
    return this.meter
  }

  /** Time since traffic began. */
  nowMs(): number {
    return (this.queue.nowUs - this.startUs) / 1_000
  }

  at(atMs: number, action: () => void): void {
    this.queue.at(this.startUs + atMs * 1_000, action)
  }

  attempt(
    region: number,
    key: number,
    cost: number,
    onAnswer: ((isAllowed: boolean) => void) | null = null,
  ): void {
    const { strategy } = this
    const isReachable = strategy.isReachable(region)
    this.meter.onAttempt({ region, key, cost, atMs: this.nowMs(), isReachable })
    const attempt = { region, key, cost, onAnswer }
    const outcome = strategy.check(attempt)
    if (outcome !== 'pending') this.settle(attempt, outcome === 'admitted')
  }

  /** Takes note of a decision at the instant at which it is taken. */
  settle(
    attempt: {
      readonly region: number
      readonly key: number
      readonly cost: number
      readonly onAnswer: ((isAllowed: boolean) => void) | null
    },
    isAllowed: boolean,
  ): void {
    const { region, key, cost, onAnswer } = attempt
    if (isAllowed) {
      const labelUs = this.strategy.labelUs(region)
      this.meter.reference.onAdmitted(key, cost, this.queue.nowUs, labelUs)
      this.meter.admitted.add(region, this.nowMs(), cost)
    }
    onAnswer?.(isAllowed)
  }

  violate(what: string): void {
    this.meter.violations.push({ atMs: this.nowMs(), what })
  }

  /** Counts one message that a region sends to all others. */
  countMessage(bytes: number): void {
    this.meter.messages++
    this.meter.bytes += bytes
  }

  /** Cuts every link between two sets of regions, or only one way, for a while. */
  cut(from: readonly number[], to: readonly number[], span: CutSpan): void {
    const change = (by: 1 | -1) => (): void => {
      for (const one of from) {
        for (const other of to) {
          this.network.changeCut(one, other, by)
          if (span.isOneWay !== true) this.network.changeCut(other, one, by)
        }
      }
      const groups = this.network.components(this.spec.regions)
      this.meter.parted.setGroups(groups, this.nowMs() * 1_000)
    }
    this.at(span.fromMs, change(1))
    this.at(span.toMs, change(-1))
  }

  /** What can be done to one region, where the strategy has daemons. */
  withFaults(region: number, act: (faults: RegionFaults) => void): void {
    const faults = this.strategy.faults[region]
    if (faults !== undefined) act(faults)
  }

  /** Calls back just after a share was written in a region; for callers who wait for exactly that. */
  onShareWritten(listener: (region: number, expUs: number) => void): void {
    this.#listeners.push(listener)
  }

  tellShareWritten(region: number, expUs: number): void {
    for (const listener of this.#listeners) listener(region, expUs)
  }

  #sample(bin: number): void {
    const { binMs } = this.meter.shares
    this.meter.sampleShares(
      bin,
      this.regions.map((_, region) => this.strategy.shareOf(region)),
    )
    this.at((bin + 1) * binMs, () => this.#sample(bin + 1))
  }
}

export interface CutSpan {
  readonly fromMs: number
  readonly toMs: number
  readonly isOneWay?: boolean
}

/** Names whose order is that of their numbers. */
export function regionName(index: number): RegionId {
  return `r${String(index).padStart(2, '0')}`
}

function normalised(weights: readonly number[]): readonly number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0)
  return weights.map((weight) => weight / sum)
}
