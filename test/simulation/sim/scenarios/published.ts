/** S2, S7 and S8: set-ups that others published figures for. */
import { addCallers, addFlows } from '../world/traffic.ts'
import { doormanScenarios } from './doorman.ts'
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
 * As ThrottleKit's research/bigger-bets/federation/eval: three regions, windows of 300 in 5 s, one region with
 * 1/3 + s * 2/3 of a load of exactly the limit. Theirs runs two windows at 2 ms between regions and leases batches of
 * 8 from a central Redis, for which one check in a batch waits; here calls are evenly spaced, regions are 60 ms apart
 * and no check waits. Judged from the third window on: what a window's base split has spent elsewhere cannot move
 * before the next, and their regions begin with nothing and lease from the first call on.
 */
function skewed(skew: number, published: number, floorPercent: number): Variant {
  const total = 60
  const hot = 1 / 3 + (skew * 2) / 3
  const shapes = [hot, (1 - hot) / 2, (1 - hot) / 2].map((part) => steady(total * part))
  return {
    name: `window 300/5 s, skew ${skew}, floor ${floorPercent} %`,
    published: `ThrottleKit ${published}`,
    // An idle region's floor is what its first callers need no round trip for; theirs have none.
    // Published to three digits.
    ...(floorPercent === 0 && { target: { utilisation: published - 0.0005 } }),
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
