import { FAULTS } from './faults.ts'
import { HOSTILE } from './hostile.ts'
import { NETWORKS } from './networks.ts'
import { POLICIES } from './policies.ts'
import { PUBLISHED } from './published.ts'
import type { Scenario } from './scenario.ts'
import { SHAPES } from './shapes.ts'
import { SIZES } from './sizes.ts'

/** Every scenario, in the order of its number. */
export const SCENARIOS: readonly Scenario[] = [
  ...SHAPES,
  ...NETWORKS,
  ...PUBLISHED,
  ...FAULTS,
  ...POLICIES,
  ...SIZES,
  ...HOSTILE,
].sort((one, other) => Number(one.id.slice(1)) - Number(other.id.slice(1)))
