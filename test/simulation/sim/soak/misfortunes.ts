/** What can go wrong with links, processes and stores, at random. */
import { GOOD_STORE_LINK } from '../region/process.ts'
import type { Prng } from '../world/prng.ts'
import type { World } from '../world/world.ts'

type Misfortune = (world: World, prng: Prng, at: { region: number; fromMs: number }) => void

/** A region is left alone for this long after the world begins, so that loans exist when things go wrong. */
const CALM_MS = 3_000

/** About one misfortune each so long, in the whole plane; each world draws its own. */
const SPACINGS_MS = [1_500, 6_000, 20_000] as const

export function addMisfortunes(world: World, prng: Prng): void {
  const spacing = prng.pick(SPACINGS_MS)
  for (let fromMs = CALM_MS; fromMs < world.spec.durationMs; fromMs += prng.exponential(spacing)) {
    const misfortune = prng.pick(MISFORTUNES)
    misfortune(world, prng, { region: prng.below(world.spec.regions), fromMs })
  }
}

const MISFORTUNES: readonly [Misfortune, ...Misfortune[]] = [
  cutOff,
  cutOneLink,
  cutFromAdmin,
  killDaemon,
  stopDaemon,
  restartRedis,
  failOver,
  wipe,
  loseReplies,
]

function cutOff(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  const others = world.regions.map((_, other) => other).filter((other) => other !== region)
  const isOneWay = prng.chance(0.5)
  const span = { fromMs, toMs: fromMs + lengthMs(prng), isOneWay }
  if (prng.chance(0.5)) world.cut([region], others, span)
  else world.cut(others, [region], span)
}

function cutOneLink(world: World, prng: Prng, at: { region: number; fromMs: number }): void {
  const other = (at.region + 1 + prng.below(world.spec.regions - 1)) % world.spec.regions
  const span = { fromMs: at.fromMs, toMs: at.fromMs + lengthMs(prng), isOneWay: prng.chance(0.7) }
  world.cut([at.region], [other], span)
}

function cutFromAdmin(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  world.cut([region], [world.adminPlace], { fromMs, toMs: fromMs + lengthMs(prng) })
}

function killDaemon(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  world.at(fromMs, () => world.withFaults(region, (faults) => faults.killDaemon()))
  world.at(fromMs + lengthMs(prng), () =>
    world.withFaults(region, (faults) => faults.startDaemon()),
  )
}

/** Also where it has a standby: the one that stopped believes in its lease when it goes on. */
function stopDaemon(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  world.at(fromMs, () => world.withFaults(region, (faults) => faults.stopDaemon()))
  world.at(fromMs + lengthMs(prng), () =>
    world.withFaults(region, (faults) => faults.resumeDaemon()),
  )
}

function restartRedis(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  const fault = { lagMs: prng.next() * 3_000, downMs: prng.exponential(1_500) }
  world.at(fromMs, () => world.withFaults(region, (faults) => faults.restartRedis(fault)))
}

function failOver(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  const fault = { lagMs: prng.next() * 3_000, keepsScripts: prng.chance(0.5) }
  world.at(fromMs, () => world.withFaults(region, (faults) => faults.failOver(fault)))
}

function wipe(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  const downMs = prng.exponential(1_000)
  world.at(fromMs, () => world.withFaults(region, (faults) => faults.wipe(downMs)))
}

function loseReplies(
  world: World,
  prng: Prng,
  { region, fromMs }: { region: number; fromMs: number },
): void {
  const link = { delayMs: prng.pick([0.3, 30]), jitterMs: 20, lostReply: 0.1, lostCall: 0.05 }
  world.at(fromMs, () => world.withFaults(region, (faults) => faults.setStoreLink(link)))
  world.at(fromMs + lengthMs(prng), () =>
    world.withFaults(region, (faults) => faults.setStoreLink(GOOD_STORE_LINK)),
  )
}

/** Mostly shorter than a loan lasts, sometimes much longer. */
function lengthMs(prng: Prng): number {
  return prng.exponential(prng.pick([400, 4_000, 15_000]))
}
