import { Central } from './central.ts'
import { DropRatio } from './drop-ratio.ts'
import { Gossip } from './gossip.ts'
import { Loans } from './loans.ts'
import { PnCounters } from './pn-counters.ts'
import type { StrategyFactory } from './strategy.ts'
import { Uncoordinated } from './uncoordinated.ts'

export const STRATEGIES = {
  loans: (world) => new Loans(world),
  static: (world) => new Uncoordinated(world, 'static', (region) => world.weights[region] ?? 0),
  naive: (world) => new Uncoordinated(world, 'naive', () => 1),
  central: (world) => new Central(world),
  gossip: (world) => new Gossip(world),
  'pn-counters': (world) => new PnCounters(world),
  'drop-ratio': (world) => new DropRatio(world),
} as const satisfies Record<string, StrategyFactory>

export type StrategyName = keyof typeof STRATEGIES

/** Those that promise never to pass the limit; the others are measured by how far they do. */
export const STRICT: readonly StrategyName[] = ['loans', 'static', 'central']
