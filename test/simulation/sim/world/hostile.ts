/** Callers who try to get more than the limit by knowing how it is held. */
import type { World } from './world.ts'

/** Asks until it is refused, in one region; gives the number of admissions. */
export function drain(world: World, region: number, most: number): number {
  let admitted = 0
  let isRefused = false
  const onAnswer = (isAllowed: boolean): void => {
    if (isAllowed) admitted++
    else isRefused = true
  }
  for (let call = 0; call < most && !isRefused; call++) world.attempt(region, 0, 1, onAnswer)
  return admitted
}

/** Walks from region to region, taking all that each has, and begins again. */
export function addWalker(world: World, paceMs: number, most: number): void {
  let region = 0
  const walk = (): void => {
    drain(world, region, most)
    region = (region + 1) % world.spec.regions
    if (world.queue.nowUs < world.endUs) world.queue.after(paceMs * 1_000, walk)
  }
  world.at(0, walk)
}

/** All regions at one instant, after a pause in which every bucket filled. */
export function addBursts(world: World, periodMs: number, most: number): void {
  for (let atMs = periodMs; atMs < world.spec.durationMs; atMs += periodMs) {
    world.at(atMs, () => {
      for (let region = 0; region < world.spec.regions; region++) drain(world, region, most)
    })
  }
}

/**
 * Takes all a region has at the instant at which its share was changed, and everywhere at the instants around the
 * end of what it borrowed: where a rule that is off by one would show.
 */
export function addLoanWatcher(world: World, most: number, chance: number): void {
  const prng = world.prng.fork('loan watcher')
  world.onShareWritten((region, expUs) => {
    if (world.queue.nowUs >= world.endUs || !prng.chance(chance)) return
    const everywhere = (): void => {
      for (let other = 0; other < world.spec.regions; other++) drain(world, other, most)
    }
    drain(world, region, most)
    if (expUs === 0) return
    const leftUs = expUs - world.strategy.labelUs(region)
    for (const asideUs of [-2, 0, 2]) world.queue.after(leftUs + asideUs, everywhere)
  })
}

/** Everywhere just before and just after each window's edge, by every region's clock. */
export function addEdges(world: World, most: number): void {
  const { windowMs } = world.spec.limit
  for (let edgeMs = windowMs; edgeMs < world.spec.durationMs; edgeMs += windowMs) {
    for (const asideMs of [-60, -20, -1, 1, 20, 60, 110]) {
      world.at(edgeMs + asideMs, () => {
        for (let region = 0; region < world.spec.regions; region++) drain(world, region, most)
      })
    }
  }
}
