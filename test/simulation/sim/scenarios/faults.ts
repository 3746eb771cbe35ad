/** S11 and S12: daemons and stores that die, forget, stop and come back; regions that join and leave. */
import { LENDER_WAIT_MS } from '../../../../shared/core/ledger/constants.ts'
import { regionName, type World } from '../world/world.ts'
import { repeated, type Scenario, steadies, THOUSAND, type Variant } from './scenario.ts'

const AT_MS = 20_000

/** Region 0 borrows from the other two. */
const BORROWER = [900, 100, 100] as const

const WHOM = new Map<string, readonly number[]>([
  ['lender', [1]],
  ['borrower', [0]],
  ['both', [0, 1]],
])

interface Fault {
  readonly name: string
  /** Brings the fault upon one region so that it begins at AT_MS. */
  readonly bring: (world: World, region: number) => void
}

const FAULTS_OF_ONE: readonly Fault[] = [
  {
    name: 'daemon killed for 2 s',
    bring: (world, region) => {
      world.at(AT_MS, () => world.withFaults(region, (faults) => faults.killDaemon()))
      world.at(AT_MS + 2_000, () => world.withFaults(region, (faults) => faults.startDaemon()))
    },
  },
  {
    name: 'daemon killed for 15 s',
    bring: (world, region) => {
      world.at(AT_MS, () => world.withFaults(region, (faults) => faults.killDaemon()))
      world.at(AT_MS + 15_000, () => world.withFaults(region, (faults) => faults.startDaemon()))
    },
  },
  {
    name: 'Redis killed, file 1 s old',
    bring: (world, region) =>
      world.at(AT_MS - 1_000, () =>
        world.withFaults(region, (faults) => faults.restartRedis({ lagMs: 1_000, downMs: 1_000 })),
      ),
  },
  {
    name: 'Redis wiped',
    bring: (world, region) =>
      world.at(AT_MS, () => world.withFaults(region, (faults) => faults.wipe(500))),
  },
  {
    name: 'Redis and daemon lost',
    bring: (world, region) => {
      world.at(AT_MS, () =>
        world.withFaults(region, (faults) => {
          faults.killDaemon()
          faults.wipe(500)
        }),
      )
      world.at(AT_MS + 1_000, () => world.withFaults(region, (faults) => faults.startDaemon()))
    },
  },
  {
    name: 'replica promoted, 500 ms behind',
    bring: (world, region) =>
      world.at(AT_MS - 500, () =>
        world.withFaults(region, (faults) => faults.failOver({ lagMs: 500, keepsScripts: false })),
      ),
  },
  {
    name: 'old primary promoted again with its scripts',
    bring: (world, region) =>
      world.at(AT_MS - 500, () =>
        world.withFaults(region, (faults) => faults.failOver({ lagMs: 500, keepsScripts: true })),
      ),
  },
  {
    name: 'clock +10 s',
    bring: (world, region) =>
      world.at(AT_MS, () => world.withFaults(region, (faults) => faults.stepClock(10_000))),
  },
  {
    name: 'clock -10 s',
    bring: (world, region) =>
      world.at(AT_MS, () => world.withFaults(region, (faults) => faults.stepClock(-10_000))),
  },
  {
    name: 'daemon stopped for 30 s',
    bring: (world, region) => {
      world.at(AT_MS, () => world.withFaults(region, (faults) => faults.stopDaemon()))
      world.at(AT_MS + 30_000, () => world.withFaults(region, (faults) => faults.resumeDaemon()))
    },
  },
]

const crashes: Scenario = {
  id: 'S11',
  title: 'crashes, failovers, clocks',
  variants: FAULTS_OF_ONE.flatMap((fault) =>
    [...WHOM].map(([whom, regions]): Variant => {
      return {
        name: `${fault.name}: ${whom}`,
        spec: {
          regions: BORROWER.length,
          limit: THOUSAND,
          durationMs: 80_000,
          stepAtMs: AT_MS,
          callers: steadies(...BORROWER),
          events: (world) => {
            for (const region of regions) fault.bring(world, region)
          },
        },
      }
    }),
  ),
}

const FIVE = [500, 150, 150, 150, 150]

function rollingRestart(world: World): void {
  for (let region = 0; region < 5; region++) {
    const fromMs = 10_000 + region * 8_000
    world.at(fromMs, () => world.withFaults(region, (faults) => faults.killDaemon()))
    world.at(fromMs + 3_000, () => world.withFaults(region, (faults) => faults.startDaemon()))
  }
}

function join(world: World): void {
  world.at(10_000, () => {
    world.strategy.admin?.setMembers(world.regions)
    world.withFaults(4, (faults) => faults.startDaemon())
  })
}

/** The base of the first four regions only. */
function withoutLast(world: World): Readonly<Record<string, number>> {
  const units = Object.fromEntries(world.regions.slice(0, 4).map((region) => [region, 250_000]))
  return units
}

function leave(world: World): void {
  world.at(20_000, () => world.strategy.admin?.setBase(withoutLast(world)))
  world.at(40_000, () => {
    world.strategy.admin?.setMembers(world.regions.slice(0, 4))
    world.withFaults(4, (faults) => faults.killDaemon())
  })
}

/** The region is fenced at 20 s; the certificate counts once all that it lent or borrowed has ended. */
function expel(world: World): void {
  world.at(20_000, () =>
    world.withFaults(4, (faults) => {
      faults.killDaemon()
      faults.crash()
    }),
  )
  world.at(20_000 + LENDER_WAIT_MS, () => {
    world.strategy.admin?.certifyRemoval(regionName(4))
    world.strategy.admin?.setBase(withoutLast(world))
  })
}

function life(
  name: string,
  events: (world: World) => void,
  extra: { readonly weights?: readonly number[]; readonly absent?: readonly number[] } = {},
): Variant {
  return {
    name,
    spec: {
      regions: 5,
      limit: THOUSAND,
      durationMs: 70_000,
      callers: steadies(...FIVE),
      events,
      ...extra,
    },
  }
}

const lives: Scenario = {
  id: 'S12',
  title: 'restarts, joining, leaving',
  variants: [
    life('rolling restart, one each 8 s', rollingRestart),
    life('fifth region joins at 10 s', join, { weights: [1, 1, 1, 1, 0], absent: [4] }),
    life('fifth region leaves', leave),
    life('fifth region is removed by force', expel),
    {
      name: 'all regions start at once again',
      spec: {
        regions: 3,
        limit: THOUSAND,
        durationMs: 60_000,
        callers: steadies(...repeated(3, 300)),
        events: (world) => {
          for (let region = 0; region < 3; region++) {
            world.at(20_000, () => world.withFaults(region, (faults) => faults.wipe(500)))
          }
        },
      },
    },
  ],
}

export const FAULTS: readonly Scenario[] = [crashes, lives]
