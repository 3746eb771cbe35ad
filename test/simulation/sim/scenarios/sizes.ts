/** S14, S17 and S18: many regions and keys, tiny limits, heavy-tailed costs. */
import { addCallers, paretoCost, zipf } from '../world/traffic.ts'
import type { LimitSpec } from '../world/world.ts'
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

const small: Scenario = {
  id: 'S17',
  title: 'tiny limits',
  variants: [2, 0].flatMap((floor) => [
    ...tiny(1, 5, floor),
    ...tiny(5, 5, floor),
    ...tiny(10, 5, floor),
    ...tiny(10, 20, floor),
  ]),
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

export const SIZES: readonly Scenario[] = [scale, small, costs, one]
