import { holdingOf } from '../../../../shared/core/enforced.ts'
import type { World } from '../world/world.ts'
import { Central } from './central.ts'
import { DropRatio } from './drop-ratio.ts'
import { Estimates } from './estimates.ts'
import { Gossip } from './gossip.ts'
import { Loans } from './loans.ts'
import { PnCounters } from './pn-counters.ts'
import { Stock } from './stock.ts'
import type { Strategy, StrategyFactory } from './strategy.ts'
import { Uncoordinated } from './uncoordinated.ts'

export const STRATEGIES = {
  loans: product,
  static: (world) => new Uncoordinated(world, 'static', (region) => world.weights[region] ?? 0),
  naive: (world) => new Uncoordinated(world, 'naive', () => 1),
  central: (world) => new Central(world),
  gossip: (world) => new Gossip(world),
  'pn-counters': (world) => new PnCounters(world),
  'drop-ratio': (world) => new DropRatio(world),
} as const satisfies Record<string, StrategyFactory>

/** As the limit is held: by shares and loans, as stock, or as an estimate. */
function product(world: World): Strategy {
  const { limit } = world.spec
  switch (holdingOf({ mode: limit.mode ?? 'strict' }, limit)) {
    case 'share':
      return new Loans(world)
    case 'stock':
      return new Stock(world)
    case 'estimate':
      return new Estimates(world)
  }
}

export type StrategyName = keyof typeof STRATEGIES

/** Those that promise never to pass the limit; the others are measured by how far they do. */
export const STRICT: readonly StrategyName[] = ['loans', 'static', 'central']
