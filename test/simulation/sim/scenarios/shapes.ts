/** S1, S3 to S6: demand that changes in time or is unequal, over a network that works. */
import type { Demand } from '../world/traffic.ts'
import {
  bucket,
  demands,
  linkOf,
  repeated,
  type Scenario,
  steadies,
  steady,
  THOUSAND,
  type Variant,
} from './scenario.ts'

const MINUTE_MS = 60_000

const balance: Scenario = {
  id: 'S0',
  title: 'steady load',
  variants: [
    {
      name: 'balanced 2x450',
      target: { utilisation: 0.99 },
      spec: { regions: 2, limit: THOUSAND, durationMs: MINUTE_MS, callers: steadies(450, 450) },
    },
    {
      name: 'skew 900/100',
      target: { utilisation: 0.98 },
      spec: { regions: 2, limit: THOUSAND, durationMs: MINUTE_MS, callers: steadies(900, 100) },
    },
    {
      name: 'overload 5x400',
      target: { utilisation: 0.99 },
      spec: {
        regions: 5,
        limit: THOUSAND,
        durationMs: MINUTE_MS,
        callers: steadies(...repeated(5, 400)),
      },
    },
    {
      name: 'skew 1200+4x150',
      target: { utilisation: 0.98, seeds: 5 },
      spec: {
        regions: 5,
        limit: THOUSAND,
        durationMs: MINUTE_MS,
        callers: steadies(1_200, ...repeated(4, 150)),
      },
    },
    {
      name: 'skew 1200+4x150, by proportion',
      target: { utilisation: 0.98, seeds: 5 },
      spec: {
        regions: 5,
        limit: { ...THOUSAND, objective: 'proportional' },
        durationMs: MINUTE_MS,
        callers: steadies(1_200, ...repeated(4, 150)),
      },
    },
  ],
}

const STEP_AT_MS = 10_000

function step(regions: number, delayMs: number, to: number, others: number): Variant {
  const busy: Demand = (atMs) => (atMs < STEP_AT_MS ? to / 15 : to)
  const rest = repeated(regions - 1, steady(others / (regions - 1)))
  return {
    name: `${regions} regions, ${delayMs} ms, ${to / 15} -> ${to} (+${others})`,
    // Two ways, each of up to a tenth more than its delay, and half a second.
    target: { convergenceMs: 2 * delayMs * 1.1 + 500, seeds: 20 },
    spec: {
      regions,
      limit: THOUSAND,
      link: linkOf(delayMs),
      durationMs: 2 * STEP_AT_MS,
      stepAtMs: STEP_AT_MS,
      callers: demands([busy, ...rest]),
    },
  }
}

const steps: Scenario = {
  id: 'S1',
  title: 'step x15 in one region',
  variants: [20, 60, 120, 250].flatMap((delayMs) => [
    step(2, delayMs, 750, 150),
    step(5, delayMs, 750, 150),
    step(2, delayMs, 1_500, 400),
    step(5, delayMs, 1_500, 400),
  ]),
}

/** Regions take turns in being busy; together they ask for 1.72 times the limit at all times. */
function sun(regions: number, periodMs: number, perSecond: number): Variant {
  const mean = (1.72 * perSecond) / regions
  const shapes = repeated(regions, 0).map((_, region): Demand => {
    const phase = (2 * Math.PI * region) / regions
    return (atMs) => mean * (1 + Math.sin((2 * Math.PI * atMs) / periodMs + phase))
  })
  return {
    name: `${regions} regions, ${periodMs / 1_000} s`,
    ...(regions === 4 && periodMs === MINUTE_MS && { target: { utilisation: 0.97 } }),
    isLong: periodMs > 1_000_000,
    spec: {
      regions,
      limit: bucket(perSecond, perSecond / 5),
      durationMs: Math.max(periodMs, MINUTE_MS),
      callers: demands(shapes),
    },
  }
}

const followTheSun: Scenario = {
  id: 'S3',
  title: 'follow the sun',
  variants: [
    sun(4, 60_000, 1_000),
    sun(8, 60_000, 1_000),
    sun(12, 60_000, 1_000),
    sun(4, 600_000, 500),
    sun(4, 3_600_000, 200),
    sun(4, 86_400_000, 40),
  ],
}

const CROWD_AT_MS = 20_000

function crowd(times: number, seconds: number): Variant {
  const busy: Demand = (atMs) =>
    atMs >= CROWD_AT_MS && atMs < CROWD_AT_MS + seconds * 1_000 ? 100 * times : 100
  return {
    name: `x${times} for ${seconds} s`,
    target: { utilisation: 0.98 },
    spec: {
      regions: 5,
      limit: THOUSAND,
      durationMs: MINUTE_MS,
      stepAtMs: CROWD_AT_MS,
      callers: demands([busy, ...repeated(4, steady(100))]),
    },
  }
}

const flashCrowd: Scenario = {
  id: 'S4',
  title: 'flash crowd',
  variants: [crowd(10, 1), crowd(10, 5), crowd(10, 30), crowd(100, 1), crowd(100, 5)],
}

function antiphase(phaseMs: number): Variant {
  const high: Demand = (atMs) => (Math.floor(atMs / phaseMs) % 2 === 0 ? 900 : 100)
  const low: Demand = (atMs) => 1_000 - high(atMs)
  return {
    name: `phases of ${phaseMs / 1_000} s`,
    ...(phaseMs >= 10_000 && { target: { utilisation: 0.96, seeds: 5 } }),
    spec: {
      regions: 2,
      limit: THOUSAND,
      durationMs: Math.max(MINUTE_MS, 2 * phaseMs),
      callers: demands([high, low]),
    },
  }
}

const square: Scenario = {
  id: 'S5',
  title: 'two regions take turns, 900/100',
  variants: [1_000, 2_000, 5_000, 10_000, 30_000, 60_000].map(antiphase),
}

interface Idle {
  readonly floorPercent: number
  readonly perSecond: readonly number[]
  readonly target?: number
}

function idle(name: string, { floorPercent, perSecond, target }: Idle): Variant {
  return {
    name: `${name}, floor ${floorPercent} %`,
    ...(target !== undefined && { target: { utilisation: target } }),
    spec: {
      regions: perSecond.length,
      limit: bucket(1_000, 200, floorPercent),
      durationMs: MINUTE_MS,
      callers: steadies(...perSecond),
    },
  }
}

const ONE_OF_FIVE = [1_100, 0, 0, 0, 0]

const idleRegions: Scenario = {
  id: 'S6',
  title: 'idle regions',
  variants: [
    idle('700/700/0', { floorPercent: 2, perSecond: [700, 700, 0], target: 0.98 }),
    idle('demand on 1 of 5', { floorPercent: 2, perSecond: ONE_OF_FIVE }),
    idle('700/700/0', { floorPercent: 0, perSecond: [700, 700, 0], target: 0.98 }),
    idle('demand on 1 of 5', { floorPercent: 0, perSecond: ONE_OF_FIVE, target: 0.98 }),
    idle('700/700/0', { floorPercent: 10, perSecond: [700, 700, 0] }),
    idle('demand on 1 of 5', { floorPercent: 10, perSecond: ONE_OF_FIVE }),
  ],
}

export const SHAPES: readonly Scenario[] = [
  balance,
  steps,
  followTheSun,
  flashCrowd,
  square,
  idleRegions,
]
