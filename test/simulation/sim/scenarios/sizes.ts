/** S14, S17 and S18: many regions and keys, tiny limits, heavy-tailed costs. */

import { GOOD_LINK } from '../world/network.ts'
import { addCallers, paretoCost, zipf } from '../world/traffic.ts'
import type { LimitSpec, World } from '../world/world.ts'
import {
  bucket,
  demands,
  perWindow,
  repeated,
  type Scenario,
  steadies,
  steady,
  type Variant,
} from './scenario.ts'

/** Every key is short in the first region and has room elsewhere: units of each move all the time. */
function hotKeys(regions: number, keys: number): Variant {
  const perKey = 4
  return {
    name: `${regions} regions, ${keys} hot keys`,
    spec: {
      regions,
      keys,
      limit: bucket(perKey, perKey * regions * 5),
      durationMs: 20_000,
      callers: (world) => {
        const key = (prng: { below: (keys: number) => number }): number => prng.below(keys)
        addCallers(world, 0, steady(keys * perKey * 0.7), { key })
        for (let region = 1; region < regions; region++) {
          addCallers(world, region, steady((keys * perKey * 0.2) / (regions - 1)), { key })
        }
      },
    },
  }
}

/** Few keys of many are near their limit, as everywhere. */
function zipfKeys(regions: number, keys: number): Variant {
  return {
    name: `${regions} regions, ${keys} keys by Zipf 1.1`,
    spec: {
      regions,
      keys,
      limit: bucket(20, 40),
      durationMs: 20_000,
      callers: demands(repeated(regions, steady(5_000 / regions)), { key: zipf(keys, 1.1) }),
    },
  }
}

function asLong(variant: Variant): Variant {
  return { ...variant, isLong: true }
}

const scale: Scenario = {
  id: 'S14',
  title: 'many regions, many keys',
  variants: [
    hotKeys(2, 100),
    hotKeys(5, 100),
    hotKeys(10, 20),
    hotKeys(20, 5),
    ...[hotKeys(5, 1_000), hotKeys(10, 100), hotKeys(20, 50), hotKeys(50, 20)].map(asLong),
    zipfKeys(5, 1_000),
    zipfKeys(5, 10_000),
    asLong(zipfKeys(5, 100_000)),
  ],
}

function tiny(perMinute: number, regions: number, floorPercent: number): readonly Variant[] {
  const limits: readonly (readonly [string, LimitSpec])[] = [
    ['window', perWindow(perMinute, 60_000)],
    [
      'bucket',
      { algorithm: 'token_bucket', capacity: perMinute, windowMs: 60_000, burst: perMinute },
    ],
  ]
  return limits.map(([kind, limit]) => ({
    name: `${kind} ${perMinute} a minute over ${regions} regions, floor ${floorPercent} %`,
    spec: {
      regions,
      limit: { ...limit, floorPercent },
      durationMs: 360_000,
      // Callers of a whole minute's limit, in one region after another.
      callers: demands(
        repeated(regions, 0).map((_, region) => (atMs: number) => {
          const turn = Math.floor(atMs / 120_000) % regions
          return region === turn ? perMinute / 60 : 0
        }),
      ),
    },
  }))
}

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000

/**
 * A day's limit of half of what is asked for, and in its middle a region is lost or starts again: what it was allotted
 * and had not spent is stranded.
 */
function stockOf(name: string, limit: Partial<LimitSpec>, what: (world: World) => void): Variant {
  return {
    name,
    spec: {
      regions: 5,
      limit: { ...perWindow(2_000, DAY_MS), ...limit },
      clocks: { drift: 1e-3, skewMs: 25 },
      durationMs: 30 * HOUR_MS,
      callers: demands([0.02, 0.01, 0.01, 0.005, 0.001].map(steady), { sliceMs: 10_000 }),
      events: what,
    },
  }
}

const stock: readonly Variant[] = [
  stockOf('a day of 2000 as stock', {}, () => {}),
  stockOf('a day of 2000 as stock, a region dies', {}, (world) =>
    world.at(6 * HOUR_MS, () => world.withFaults(0, (faults) => faults.crash())),
  ),
  stockOf('a day of 2000 as stock, a region is wiped each hour', {}, (world) => {
    for (let hour = 1; hour < 30; hour++) {
      world.at(hour * HOUR_MS, () => world.withFaults(0, (faults) => faults.wipe(0)))
    }
  }),
  stockOf('a day of 2000 as stock, admin away for 6 h', { floorPercent: 20 }, (world) => {
    const regions = world.regions.map((_, region) => region)
    world.cut(regions, [world.adminPlace], { fromMs: 4 * HOUR_MS, toMs: 10 * HOUR_MS })
  }),
  stockOf(
    'a day of 2000 in Paris as stock',
    { calendar: { unit: 'day', timeZone: 'Europe/Paris' } },
    () => {},
  ),
]

/** Callers of three times the limit, all at once or in turns; `isCut`: two sides that do not hear each other. */
function estimated(perMinute: number, regions: number, isCut = false): Variant {
  const peak = (3 * perMinute) / 60
  const link = { ...GOOD_LINK, delayMs: 60, jitterMs: 6 }
  // Sum of peaks x (tick + spacing + delay + twice the skew), and of each other region one check that has begun.
  const lateSeconds = 1 + 0.1 + 0.1 + 0.066 + 0.1
  const connected = Math.ceil(peak * regions * lateSeconds + regions)
  const most = (regions - 1) * perMinute
  return {
    name: `eventual ${perMinute} a minute over ${regions} regions${isCut ? ', cut in two' : ''}`,
    spec: {
      regions,
      link,
      limit: {
        ...perWindow(perMinute, 60_000),
        mode: 'eventual',
        allowance: isCut ? perMinute + 2 * connected : Math.min(most, connected),
      },
      clocks: { drift: 1e-3, skewMs: 25 },
      durationMs: 360_000,
      callers: demands(repeated(regions, steady(peak))),
      events: (world) => {
        if (!isCut) return
        const half = Math.floor(regions / 2)
        const sides = world.regions.map((_, region) => region)
        world.cut(sides.slice(0, half), sides.slice(half), { fromMs: 0, toMs: 300_000 })
      },
    },
  }
}

const estimates: readonly Variant[] = [
  estimated(5, 5),
  estimated(5, 20),
  estimated(60, 5),
  estimated(600, 5),
  estimated(600, 4, true),
]

/** The same callers at the limit, which part of them the floors of idle regions would deny. */
function relaxed(percent: number): Variant {
  return {
    name: `relaxed by ${percent} %, 1000/s, demand on 1 of 5`,
    spec: {
      regions: 5,
      limit: { ...bucket(1_000, 200), mode: 'relaxed', relaxedPercent: percent },
      durationMs: 60_000,
      callers: steadies(1_100, 0, 0, 0, 0),
    },
  }
}

const byCalendar: Variant = {
  name: 'minutes of a calendar, 300 over 3 regions',
  spec: {
    regions: 3,
    limit: { ...perWindow(300, 60_000), calendar: { unit: 'minute', timeZone: 'Asia/Kolkata' } },
    clocks: { drift: 1e-3, skewMs: 25 },
    durationMs: 240_000,
    callers: demands([4, 2, 0.5].map(steady)),
  },
}

const small: Scenario = {
  id: 'S17',
  title: 'tiny limits, long windows',
  variants: [
    ...[2, 0].flatMap((floor) => [
      ...tiny(1, 5, floor),
      ...tiny(5, 5, floor),
      ...tiny(10, 5, floor),
      ...tiny(10, 20, floor),
    ]),
    ...estimates,
    ...stock,
  ],
}

/** Every other way to hold a limit, under one load. */
const kinds: Scenario = {
  id: 'S21',
  title: 'modes, calendars, algorithms',
  variants: [
    relaxed(0),
    relaxed(5),
    relaxed(20),
    byCalendar,
    ...(['leaky_bucket', 'sliding_window', 'sliding_log'] as const).map(
      (algorithm): Variant => ({
        name: `${algorithm}, 600/6 s, 75/20/10 of each second`,
        spec: {
          regions: 3,
          limit: { ...perWindow(600, 6_000), algorithm, burst: 100 },
          durationMs: 60_000,
          callers: steadies(75, 20, 10),
          events: (world) => {
            world.cut([0], [1], { fromMs: 20_000, toMs: 40_000 })
            world.at(30_000, () => world.withFaults(1, (faults) => faults.wipe(500)))
          },
        },
      }),
    ),
  ],
}

const costs: Scenario = {
  id: 'S18',
  title: 'heavy-tailed costs, 1 to 1000',
  variants: [
    {
      name: '900/100 calls of mean cost 7',
      spec: {
        regions: 2,
        limit: bucket(7_000, 7_000),
        durationMs: 60_000,
        callers: demands([steady(900), steady(100)], { cost: paretoCost(1_000, 1) }),
      },
    },
    {
      name: 'overload, window 35000/5 s',
      spec: {
        regions: 3,
        limit: perWindow(35_000, 5_000),
        durationMs: 60_000,
        callers: demands(repeated(3, steady(500)), { cost: paretoCost(1_000, 1) }),
      },
    },
  ],
}

const one: Scenario = {
  id: 'S20',
  title: 'one region alone',
  variants: [
    {
      name: '1200',
      spec: {
        regions: 1,
        limit: bucket(1_000, 200),
        durationMs: 30_000,
        callers: steadies(1_200),
      },
    },
  ],
}

export const SIZES: readonly Scenario[] = [scale, small, costs, one, kinds]
