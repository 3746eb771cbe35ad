/** S16: callers who know where spare shares are and when they move. */
import { addBursts, addEdges, addLoanWatcher, addWalker } from '../world/hostile.ts'
import { addCallers } from '../world/traffic.ts'
import type { LimitSpec, World } from '../world/world.ts'
import { bucket, perWindow, type Scenario, steady, type Variant } from './scenario.ts'

function attack(name: string, limit: LimitSpec, callers: (world: World) => void): Variant {
  return {
    name,
    spec: { regions: 3, limit, clocks: { drift: 1e-3, skewMs: 25 }, durationMs: 60_000, callers },
  }
}

/** Demand that moves back and forth keeps loans moving while the others strike. */
function swing(world: World, perSecond: number): void {
  for (const region of [0, 1, 2]) {
    addCallers(world, region, (atMs) =>
      Math.floor(atMs / 3_000) % 3 === region ? perSecond : perSecond / 20,
    )
  }
}

const attacks: Scenario = {
  id: 'S16',
  title: 'hostile callers',
  variants: [
    attack('walks the regions', bucket(1_000, 200), (world) => addWalker(world, 50, 400)),
    attack('walks the regions, window 300/5 s', perWindow(300, 5_000), (world) =>
      addWalker(world, 50, 400),
    ),
    attack('bursts everywhere at once', bucket(1_000, 200), (world) => {
      swing(world, 800)
      addBursts(world, 1_700, 400)
    }),
    attack('strikes when loans move', bucket(1_000, 200), (world) => {
      swing(world, 800)
      addLoanWatcher(world, 400, 0.2)
    }),
    attack('strikes when loans move, window 300/5 s', perWindow(300, 5_000), (world) => {
      swing(world, 50)
      addLoanWatcher(world, 400, 0.2)
    }),
    attack('strikes at window edges', perWindow(300, 5_000), (world) => {
      swing(world, 50)
      addEdges(world, 400)
    }),
    attack('idle callers pick up at once', bucket(1_000, 200), (world) => {
      addCallers(world, 0, steady(100))
      addCallers(world, 1, (atMs) => (atMs % 10_000 < 100 ? 20_000 : 0))
      addCallers(world, 2, (atMs) => (atMs % 7_000 < 100 ? 20_000 : 0))
    }),
  ],
}

export const HOSTILE: readonly Scenario[] = [attacks]
