/**
 * A world of random misfortune, entirely decided by its seed.
 *
 * Nothing here breaks what the protocol assumes (rates of clocks, atomic scripts, authentic messages), and all else
 * goes wrong at once: links, processes, stores, policies, and callers who strike when it hurts.
 */
import type { BaseSplit } from '../../../../shared/core/policy.ts'
import { POOL_UNITS } from '../../../../shared/core/units.ts'
import { bucket, perWindow } from '../scenarios/scenario.ts'
import { addBursts, addEdges, addLoanWatcher } from '../world/hostile.ts'
import type { Link } from '../world/network.ts'
import type { Prng } from '../world/prng.ts'
import { addCallers } from '../world/traffic.ts'
import { type LimitSpec, regionName, type World, type WorldSpec } from '../world/world.ts'
import { addMisfortunes } from './misfortunes.ts'

const DURATION_MS = 120_000

const WINDOWS = ['fixed_window', 'fixed_window', 'sliding_window', 'sliding_log'] as const

export function randomWorld(prng: Prng): WorldSpec {
  const regions = 2 + prng.below(3)
  const limit = randomLimit(prng)
  return {
    regions,
    limit,
    weights: randomWeights(prng, regions),
    link: randomLink(prng),
    durationMs: DURATION_MS,
    daemons: prng.chance(0.3) ? 2 : 1,
    clocks: { drift: 1e-3, skewMs: 24 },
    callers: (world) => addRandomCallers(world),
    events: (world) => {
      addMisfortunes(world, world.prng.fork('misfortunes'))
      if (world.prng.fork('epochs').chance(0.5)) changeBases(world)
    },
  }
}

function randomLimit(prng: Prng): LimitSpec {
  const floor = prng.pick([0, 2, 10])
  if (prng.chance(0.4)) {
    const capacity = prng.pick([7, 40, 300])
    const limit = perWindow(capacity, prng.pick([1_000, 5_000, 20_000]))
    return { ...limit, algorithm: prng.pick(WINDOWS), floorPercent: floor }
  }
  const perSecond = prng.pick([3, 20, 100])
  const limit = bucket(perSecond, Math.ceil(perSecond * prng.pick([0.2, 1, 4])), floor)
  return { ...limit, algorithm: prng.pick(['token_bucket', 'leaky_bucket']) }
}

function randomWeights(prng: Prng, regions: number): readonly number[] {
  const weights = Array.from({ length: regions }, () => prng.below(5))
  return weights.some((weight) => weight > 0) ? weights : weights.map(() => 1)
}

function randomLink(prng: Prng): Link {
  return {
    delayMs: prng.pick([1, 60, 250]),
    jitterMs: prng.pick([0, 30, 400]),
    loss: prng.pick([0, 0.05, 0.3, 0.5]),
    duplicate: prng.pick([0, 0.15]),
    late: prng.pick([0, 0.02, 0.1]),
    // Up to four times as long as a loan lasts.
    lateMs: 40_000,
  }
}

/** Demand that wanders between regions, some of it far over the limit, and strikes at the worst moments. */
function addRandomCallers(world: World): void {
  const prng = world.prng.fork('callers')
  const { capacity, windowMs, algorithm, burst } = world.spec.limit
  const perSecond = (capacity * 1_000) / windowMs
  const turnMs = prng.pick([2_000, 7_000, 25_000])
  world.regions.forEach((_, region) => {
    const level = prng.pick([0.1, 0.6, 1.5])
    addCallers(world, region, (atMs) => {
      const isTurn = Math.floor(atMs / turnMs) % world.spec.regions === region
      return perSecond * (isTurn ? level : level / 15)
    })
  })
  const most = Math.ceil(Math.max(burst, capacity)) + 1
  if (prng.chance(0.5)) addBursts(world, prng.pick([1_300, 4_700]), most)
  if (prng.chance(0.7)) addLoanWatcher(world, most, 0.3)
  if (algorithm === 'fixed_window' && prng.chance(0.5)) addEdges(world, most)
}

/** A base split of its own making whenever the last one is adopted everywhere. */
function changeBases(world: World): void {
  const prng = world.prng.fork('bases')
  const { admin } = world.strategy
  const turn = (): void => {
    if (admin !== null && prng.chance(0.3)) admin.setBase(randomBase(prng, world.spec.regions))
    world.queue.after(prng.between(500, 8_000) * 1_000, turn)
  }
  world.at(prng.between(0, 20_000), turn)
}

function randomBase(prng: Prng, regions: number): BaseSplit {
  let left = POOL_UNITS
  const base: Record<string, number> = {}
  for (let region = 0; region < regions; region++) {
    const part = region === regions - 1 ? left : Math.min(left, prng.below(POOL_UNITS))
    if (part > 0) base[regionName(region)] = part
    left -= part
  }
  return base
}
