/** A world at random, and everything that can go wrong in it, all from one seed. */
import type { LedgerLimit } from '../../../shared/core/ledger/types.ts'
import type { Mutant } from '../mutants.ts'
import { FAIR } from './network.ts'
import { Random } from './random.ts'
import { aLimit, World, type WorldOptions } from './world.ts'

export interface ChaosOptions {
  readonly seed: number
  readonly forMs: number
  readonly mutant?: Mutant
  /** Leaves base splits alone, so that floors can be held to. */
  readonly hasEpochs?: boolean
  readonly algorithm?: 'token_bucket' | 'fixed_window'
  /** Trouble ends and links are fair from here on. */
  readonly troubleMs?: number
  /** Leaves out limits so slow that forgetting their demand takes minutes. */
  readonly isBrisk?: boolean
  /** Nobody asks for anything from here on. */
  readonly calmMs?: number
}

/** How often something goes wrong, on average. */
const TROUBLE_MS = 2_500

export interface ChaosResult {
  readonly world: World
  readonly troubles: Readonly<Record<string, number>>
}

/** Runs one seed; throws a Violation at the first step that breaks a promise. */
export function runChaos(options: ChaosOptions): ChaosResult {
  const random = new Random(options.seed * 7_919 + 1)
  const regions = ['a', 'b', 'c', 'd'].slice(0, random.whole(2, 4))
  const limits = someLimits(random, regions, options)
  const world = new World({
    seed: options.seed,
    regions,
    limits,
    keys: random.pick([1, 1, 3]),
    weather: someWeather(random),
    demand: calmed(someDemand(random, regions, limits), options.calmMs),
    trafficMs: 200,
    measureMs: 250,
    doubt: random.pick([0, 0, 0.002, 0.01]),
    ...(options.mutant === undefined ? {} : { mutant: options.mutant }),
  })
  const troubles: Record<string, number> = {}
  const trouble = (): void => {
    if (world.scheduler.nowMs > (options.troubleMs ?? options.forMs)) return
    const [name, run] = random.pick(troublesOf(world, random, options))
    troubles[name] = (troubles[name] ?? 0) + 1
    run()
    world.scheduler.after(random.between(0, 2 * TROUBLE_MS), trouble)
  }
  world.scheduler.after(random.between(2_000, 6_000), trouble)
  if (options.troubleMs !== undefined) {
    world.scheduler.after(options.troubleMs, () => {
      world.network.heal()
      world.network.weather = FAIR
    })
  }
  world.run(options.forMs)
  return { world, troubles }
}

function someLimits(
  random: Random,
  regions: readonly string[],
  options: ChaosOptions,
): readonly LedgerLimit[] {
  const algorithms =
    options.algorithm === undefined
      ? (['token_bucket', 'fixed_window'] as const)
      : [options.algorithm]
  return algorithms.map((algorithm, index) =>
    aLimit({
      id: index + 1,
      algorithm,
      capacity: random.pick(options.isBrisk === true ? [100, 1_000] : [7, 100, 1_000, 20_000]),
      windowMs: algorithm === 'fixed_window' ? random.pick([1_000, 5_000, 20_000]) : 1_000,
      floorPercent: random.pick([0, 2, 10]),
      weights: someWeights(random, regions),
    }),
  )
}

function someWeights(random: Random, regions: readonly string[]): Record<string, number> {
  const weights = regions.map((region) => [region, random.pick([0, 1, 5, 30])] as const)
  const isEmpty = weights.every(([, weight]) => weight === 0)
  return Object.fromEntries(isEmpty ? regions.map((region) => [region, 1]) : weights)
}

function someWeather(random: Random) {
  return {
    delayMs: random.pick([1, 20, 100]),
    jitterMs: random.pick([5, 100, 1_000]),
    loss: random.pick([0, 0.05, 0.3]),
    repeat: random.pick([0, 0.2]),
    straggle: random.pick([0, 0.01, 0.1]),
  }
}

/** Each region's demand for each key jumps between nothing and twice the limit every few seconds. */
function someDemand(random: Random, regions: readonly string[], limits: readonly LedgerLimit[]) {
  const seed = random.whole(0, 1e9)
  const phaseMs = random.pick([3_000, 8_000, 20_000])
  return (id: string, region: string, nowMs: number): number => {
    const place = limits.findIndex((limit) => id.includes(`}${limit.id}.`))
    const limit = limits[place]
    if (limit === undefined) return 0
    const phase = Math.floor(nowMs / phaseMs)
    const key = Number(id.slice(id.indexOf('=v') + 2)) * 17
    const part = new Random(seed + phase * 101 + place * 7 + regions.indexOf(region) * 13 + key)
    part.next()
    const rate = (limit.capacity * 1_000) / limit.windowMs
    return rate * part.pick([0, 0, 0.02, 0.3, 0.9, 2])
  }
}

function calmed(
  demand: WorldOptions['demand'],
  calmMs = Number.POSITIVE_INFINITY,
): WorldOptions['demand'] {
  return (id, region, nowMs) => (nowMs < calmMs ? demand(id, region, nowMs) : 0)
}

type Trouble = readonly [name: string, run: () => void]

function troublesOf(world: World, random: Random, options: ChaosOptions): readonly Trouble[] {
  const regions = world.sites.map((site) => site.region)
  const [one, other] = [random.pick(regions), random.pick(regions)]
  const healAfter = (ms: number): void => world.scheduler.after(ms, () => world.network.heal())
  const isUp = world.site(one).daemon.isUp
  const ifUp = (run: () => void) => (): void => {
    if (isUp) run()
  }
  const downMs = random.pick([50, 1_000, 5_000, 15_000])
  const troubles: Trouble[] = [
    ['one-way cut', () => world.network.cut(one, other)],
    ['cut', () => world.network.cutBoth(one, other)],
    ['heal', () => world.network.heal()],
    [
      'healing cut',
      () => {
        world.network.cutBoth(one, other)
        healAfter(random.between(1_000, 15_000))
      },
    ],
    ['daemon crash', ifUp(() => world.crashDaemon(one, downMs))],
    ['takeover', ifUp(() => world.takeOver(one))],
    ['store restart', ifUp(() => world.restartStore(one))],
    [
      'removal',
      () => {
        if (regions.length > 2) world.removeRegion(one, random.between(15_000, 30_000))
      },
    ],
    ['lost region', ifUp(() => world.loseRegion(one, downMs))],
  ]
  if (options.hasEpochs !== false) {
    const limitId = random.pick([...world.planner.plane.limits.keys()])
    const weights = someWeights(random, regions)
    troubles.push(['epoch', () => world.openEpoch(limitId, weights)])
    troubles.push(['epoch', () => world.openEpoch(limitId, weights)])
    const part = random.pick([0.3, 0.7])
    troubles.push(['lowered limit', () => world.lowerLimit(limitId, part)])
  }
  return troubles
}
