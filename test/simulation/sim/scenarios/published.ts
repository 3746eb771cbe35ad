/** S2, S7, S8 and S15: set-ups that others published figures for. */
import type { Demand } from '../world/traffic.ts'
import { addCallers, addFlows } from '../world/traffic.ts'
import type { World } from '../world/world.ts'
import {
  bucket,
  demands,
  linkOf,
  perWindow,
  repeated,
  type Scenario,
  steadies,
  steady,
  THOUSAND,
  type Variant,
} from './scenario.ts'

/** Ten flows that are always on, seven here and three there, and speed up until they are refused. */
function flows(name: string, weights: readonly number[]): Variant {
  return {
    name,
    spec: {
      regions: 2,
      limit: THOUSAND,
      weights,
      link: linkOf(20),
      durationMs: 60_000,
      judge: { fromMs: 10_000, toMs: 60_000 },
      callers: (world) => {
        for (const [region, count] of [7, 3].entries()) {
          addFlows(world, region, { count, startRate: 20, gain: 40, cost: 1 })
        }
      },
    },
  }
}

const limiterFlows: Scenario = {
  id: 'S2',
  title: 'ten always-on flows, 7:3 over two limiters',
  variants: [flows('base 70/30', [7, 3]), flows('base 50/50', [1, 1])],
}

/** What ThrottleKit says of its own utilisation at each skew. */
const SKEW_PUBLISHED = new Map([
  [0, 0.973],
  [0.25, 0.977],
  [0.5, 0.99],
  [0.75, 0.957],
  [1, 1],
])

/**
 * Three regions; one has 1/3 + s * 2/3 of the load, which is exactly the limit. Evenly spaced calls. Judged from the
 * third window on: what a window's base split has spent elsewhere cannot move before the next.
 */
function skewed(skew: number, published: number, floorPercent: number): Variant {
  const total = 60
  const hot = 1 / 3 + (skew * 2) / 3
  const shapes = [hot, (1 - hot) / 2, (1 - hot) / 2].map((part) => steady(total * part))
  return {
    name: `window 300/5 s, skew ${skew}, floor ${floorPercent} %`,
    published: `ThrottleKit ${published}`,
    spec: {
      regions: 3,
      limit: { ...perWindow(300, 5_000), floorPercent },
      durationMs: 120_000,
      judge: { fromMs: 10_000, toMs: 120_000 },
      callers: demands(shapes, { isPaced: true }),
    },
  }
}

function skewedBucket(skew: number, perSecond: number): Variant {
  const hot = 1 / 3 + (skew * 2) / 3
  const parts = [hot, (1 - hot) / 2, (1 - hot) / 2]
  return {
    name: `bucket ${perSecond}/s, skew ${skew}`,
    spec: {
      regions: 3,
      limit: bucket(perSecond, perSecond / 5),
      durationMs: 60_000,
      callers: demands(parts.map((part) => steady(perSecond * part))),
    },
  }
}

const skewSweep: Scenario = {
  id: 'S7',
  title: 'ThrottleKit skew sweep',
  variants: [
    ...[...SKEW_PUBLISHED].map(([skew, published]) => skewed(skew, published, 0)),
    ...[...SKEW_PUBLISHED].map(([skew, published]) => skewed(skew, published, 2)),
    ...[0, 0.5, 1].flatMap((skew) => [skewedBucket(skew, 1_000), skewedBucket(skew, 60)]),
  ],
}

const FLEET_PUBLISHED = new Map([
  [2, 0.808],
  [8, 1],
  [32, 1],
  [64, 1],
])

function fleet(regions: number, published: number): Variant {
  return {
    name: `${regions} regions`,
    isLong: regions > 32,
    published: `ThrottleKit ${published}`,
    spec: {
      regions,
      limit: perWindow(300, 5_000),
      durationMs: 60_000,
      callers: steadies(...repeated(regions, 180 / regions)),
    },
  }
}

const fleetSweep: Scenario = {
  id: 'S8',
  title: 'ThrottleKit fleet sweep, 3x overload',
  variants: [
    ...[...FLEET_PUBLISHED].map(([regions, published]) => fleet(regions, published)),
    {
      name: '512 enforcers of one region',
      published: 'ThrottleKit 0.387',
      spec: {
        regions: 1,
        limit: perWindow(300, 5_000),
        durationMs: 60_000,
        // Enforcers of one region share its Redis, so callers of all of them meet one counter.
        callers: steadies(180),
      },
    },
  ],
}

/** Doorman's clients ask for units of a capacity of 500; here they are calls a second. */
const DOORMAN = bucket(500, 100)

function doorman(
  name: string,
  wants: readonly Demand[],
  rest: {
    readonly durationMs: number
    readonly stepAtMs?: number
    readonly events?: (world: World) => void
  },
): Variant {
  return {
    name,
    published: 'Doorman 96.6 % handed out, 106.05 % at most',
    spec: { regions: wants.length, limit: DOORMAN, callers: demands(wants), ...rest },
  }
}

/** Each client's want changes by up to 30 % every ten seconds around its mean. */
function wandering(mean: number, number: number): Demand {
  return (atMs) => {
    const turn = Math.floor(atMs / 10_000) * 7.13 + number * 2.39
    return mean * (1 + 0.3 * Math.sin(turn * turn))
  }
}

function spiking(mean: number, to: number): Demand {
  return (atMs) => (atMs >= 60_000 && atMs < 120_000 ? to : mean)
}

const FIVE = repeated(5, 0).map((_, number) => wandering(110, number))
/** 45 clients, five at each of nine places. */
const NINE = repeated(9, 0).map((_, number) => wandering(5 * 12, number))
const SPIKES = FIVE.map((want, number) => (number < 2 ? spiking(90, 1_000) : want))

/** One mishap a minute: a region cut off, one-way, a daemon killed, or a Redis wiped. */
function mishaps(world: World): void {
  const prng = world.prng.fork('mishaps')
  const all = world.regions.map((_, region) => region)
  for (let atMs = 60_000; atMs < world.spec.durationMs - 60_000; atMs += 60_000) {
    const region = prng.below(all.length)
    const others = all.filter((other) => other !== region)
    const span = { fromMs: atMs, toMs: atMs + prng.between(2_000, 20_000) }
    const kind = prng.pick(['cut', 'one-way', 'daemon', 'wipe'])
    if (kind === 'cut') world.cut([region], others, span)
    else if (kind === 'one-way') world.cut(others, [region], { ...span, isOneWay: true })
    else if (kind === 'daemon') restartDaemon(world, region, span)
    else wipe(world, region, span)
  }
}

function restartDaemon(world: World, region: number, span: { fromMs: number; toMs: number }): void {
  world.at(span.fromMs, () => world.withFaults(region, (faults) => faults.killDaemon()))
  world.at(span.toMs, () => world.withFaults(region, (faults) => faults.startDaemon()))
}

function wipe(world: World, region: number, span: { fromMs: number; toMs: number }): void {
  world.at(span.fromMs, () => world.withFaults(region, (faults) => faults.wipe(500)))
}

const doormanScenarios: Scenario = {
  id: 'S15',
  title: 'Doorman scenarios, capacity 500',
  variants: [
    doorman('1: five clients', FIVE, { durationMs: 180_000 }),
    doorman('2: five clients, one cut off for a minute', FIVE, {
      durationMs: 180_000,
      stepAtMs: 120_000,
      events: (world) => world.cut([0], [1, 2, 3, 4], { fromMs: 60_000, toMs: 120_000 }),
    }),
    doorman('3: 45 clients in 3x3', NINE, { durationMs: 180_000 }),
    doorman('4: 45 clients, a third cut off for a minute', NINE, {
      durationMs: 180_000,
      stepAtMs: 120_000,
      events: (world) =>
        world.cut([0, 1, 2], [3, 4, 5, 6, 7, 8], { fromMs: 60_000, toMs: 120_000 }),
    }),
    doorman('5: two spike to 1000', SPIKES, { durationMs: 180_000, stepAtMs: 60_000 }),
    doorman('6: two spike, a daemon dies', SPIKES, {
      durationMs: 180_000,
      stepAtMs: 60_000,
      events: (world) => restartDaemon(world, 4, { fromMs: 59_000, toMs: 64_000 }),
    }),
    doorman('7: a mishap each minute for an hour', FIVE, {
      durationMs: 3_600_000,
      events: mishaps,
    }),
  ],
}

/** Callers that try again when refused, so that denials raise demand. */
const retries: Scenario = {
  id: 'S19',
  title: 'retry storm',
  variants: [
    {
      name: '700/300/150, 80 % try again',
      spec: {
        regions: 3,
        limit: THOUSAND,
        durationMs: 60_000,
        callers: (world) => {
          for (const [region, perSecond] of [700, 300, 150].entries()) {
            const retry = { chance: 0.8, delayMs: 200, times: 10 }
            addCallers(world, region, steady(perSecond), { retry })
          }
        },
      },
    },
  ],
}

export const PUBLISHED: readonly Scenario[] = [
  limiterFlows,
  skewSweep,
  fleetSweep,
  doormanScenarios,
  retries,
]
