/**
 * Rules of a region's restart, each left out, and the workload that shows it: callers who spend just what a server
 * that comes back has forgotten, and spend it again.
 */
import { FAITHFUL_REGION, type RegionMutant } from './sim/region/mutant.ts'
import { bucket, perWindow } from './sim/scenarios/scenario.ts'
import { Loans } from './sim/strategies/loans.ts'
import { drain } from './sim/world/hostile.ts'
import { addCallers } from './sim/world/traffic.ts'
import { World, type WorldSpec } from './sim/world/world.ts'

const DURATION_MS = 24_000
const FIRST_MS = 3_000
const EVERY_MS = 3_000
const MOST = 400

/** True when admissions or shares passed the limit. */
function breaks(spec: WorldSpec, seed: number, mutant: RegionMutant): boolean {
  const meter = new World(spec, seed, (world) => new Loans(world, mutant)).run()
  return meter.violations.length > 0 || meter.reference.excess > 0
}

type Workload = (seed: number, mutant?: RegionMutant) => boolean

/** A little load, so that buckets are full when they are struck, and from time to time the fault. */
function workload(fault: (world: World, region: number, atMs: number) => void): Workload {
  return (seed, mutant = FAITHFUL_REGION) => {
    const limit = seed % 2 === 0 ? bucket(100, 100, 0) : perWindow(100, 20_000)
    const spec: WorldSpec = {
      regions: 2,
      limit,
      durationMs: DURATION_MS,
      callers: (world) => {
        for (const region of [0, 1]) addCallers(world, region, () => 2)
      },
      events: (world) => {
        const prng = world.prng.fork('faults')
        for (let atMs = FIRST_MS; atMs < DURATION_MS; atMs += EVERY_MS) {
          fault(world, prng.below(2), atMs + prng.between(0, 1_000))
        }
      },
    }
    return breaks(spec, seed, mutant)
  }
}

/** What is spent after the instant of the file is unknown to the server that comes back with it. */
function strike(world: World, region: number, fromMs: number): void {
  for (let atMs = fromMs; atMs < fromMs + 1_500; atMs += 20) {
    world.at(atMs, () => drain(world, region, MOST))
  }
}

const restarts = workload((world, region, atMs) => {
  world.at(atMs, () =>
    world.withFaults(region, (faults) => faults.restartRedis({ lagMs: 200, downMs: 50 })),
  )
  strike(world, region, atMs + 100)
})

const promotions = workload((world, region, atMs) => {
  world.at(atMs, () =>
    world.withFaults(region, (faults) => faults.failOver({ lagMs: 200, keepsScripts: true })),
  )
  strike(world, region, atMs + 100)
})

/** A daemon begins over a slow connection while another server takes its Redis' place. */
const promotionsAtStart = workload((world, region, atMs) => {
  const prng = world.prng.fork(`start ${atMs}`)
  world.at(atMs, () =>
    world.withFaults(region, (faults) => {
      faults.setStoreLink({ delayMs: 30, jitterMs: 5, lostReply: 0, lostCall: 0 })
      faults.killDaemon()
      faults.startDaemon()
    }),
  )
  world.at(atMs + prng.between(40, 160), () =>
    world.withFaults(region, (faults) => faults.failOver({ lagMs: 60, keepsScripts: false })),
  )
  strike(world, region, atMs + prng.between(60, 200))
})

/** Demand goes to and fro, so that a loan is made or ended in nearly every second. */
const restartsOfLenders: Workload = (seed, mutant = FAITHFUL_REGION) => {
  const spec: WorldSpec = {
    regions: 2,
    limit: bucket(100, 100, 0),
    durationMs: DURATION_MS,
    callers: (world) => {
      for (const region of [0, 1]) {
        addCallers(world, region, (atMs) => (Math.floor(atMs / 1_500) % 2 === region ? 150 : 2))
      }
    },
    events: (world) => {
      const prng = world.prng.fork('faults')
      for (let atMs = FIRST_MS; atMs < DURATION_MS; atMs += EVERY_MS) {
        const fault = { lagMs: prng.between(50, 1_500), downMs: 20 }
        world.at(atMs, () =>
          world.withFaults(prng.below(2), (faults) => faults.restartRedis(fault)),
        )
      }
    },
  }
  return breaks(spec, seed, mutant)
}

/** One region has lent nearly all and is idle. */
const idleLender: Workload = (seed, mutant = FAITHFUL_REGION) => {
  const spec: WorldSpec = {
    regions: 2,
    limit: bucket(100, 100, 0),
    durationMs: DURATION_MS,
    callers: (world) => addCallers(world, 0, () => 200),
  }
  return breaks(spec, seed, mutant)
}

export interface RegionCase {
  readonly mutant: RegionMutant
  readonly workload: Workload
}

/** By the rule that each leaves out. */
export const REGION_MUTANTS: Readonly<Record<string, RegionCase>> = {
  'an enforcer loads the scripts where a restarted Redis has none': {
    mutant: { enforcersLoad: true },
    workload: restarts,
  },
  'scripts of a server that was promoted again are believed': {
    mutant: { ignoresReplicationId: true },
    workload: promotions,
  },
  'levels go on where they were when Redis comes back': {
    mutant: { levelsGoOn: true },
    workload: restarts,
  },
  'the rows of a Redis that comes back are believed': {
    mutant: { trustsFile: true },
    workload: restartsOfLenders,
  },
  'scripts are loaded before the shares are written again': {
    mutant: { loadsFirst: true },
    workload: restartsOfLenders,
  },
  'a connection opens itself again while a daemon begins': {
    mutant: { reconnects: true },
    workload: promotionsAtStart,
  },
  'a counter with loans expires': { mutant: { unpins: true }, workload: idleLender },
}

export const REGION_WORKLOADS: readonly Workload[] = [
  restarts,
  promotions,
  promotionsAtStart,
  restartsOfLenders,
  idleLender,
]
