/** Rules of token leases, each left out: what an enforcer holds is inside the bound only with all of them. */
import { LEASE_MS } from '../../../shared/core/lease.ts'
import { randomOf } from '../../support/random.ts'
import { LeasedRegions, type LeaseRule, RULE } from './leased-regions.ts'
import { LeasedWindows, WINDOW_RULE, type WindowLeaseRule } from './leased-windows.ts'

const STEPS = 150
const ROUNDING = 1e-6

/** True when regions that lease blocks of one bucket admitted more than it would have. */
export function overrunsBucket(seed: number, rule: LeaseRule = RULE): boolean {
  const regions = new LeasedRegions(rule, randomOf(seed))
  for (let step = 0; step < STEPS; step++) regions.step()
  return regions.lowest < -ROUNDING
}

/** True when regions that lease blocks of one window admitted more than its capacity. */
export function overrunsWindow(seed: number, rule: WindowLeaseRule = WINDOW_RULE): boolean {
  const regions = new LeasedWindows(rule, randomOf(seed))
  for (let step = 0; step < STEPS; step++) regions.step()
  return regions.excess > 0
}

/** By the rule that each leaves out. */
export const BUCKET_LEASE_MUTANTS: Readonly<Record<string, LeaseRule>> = {
  'a returned lease is credited whatever other leases are out': {
    ...RULE,
    credit: ({ tokens, capacity, level }) => Math.max(0, Math.min(tokens, capacity - level)),
  },
  'a leased bucket keeps its whole burst': { ...RULE, burst: ({ burst }) => burst },
  'a lease is spent for twice its life': { ...RULE, lifeMs: 2 * LEASE_MS },
  'a lease is returned and spent': { ...RULE, returnsOnce: false },
  'the life of a token lease is counted from its receipt': { ...RULE, datesBySend: false },
  'a leased bucket is full after a restart': { ...RULE, levelAtBoot: 1 },
}

export const WINDOW_LEASE_MUTANTS: Readonly<Record<string, WindowLeaseRule>> = {
  'a lease outlives its window': { ...WINDOW_RULE, endsWithWindow: false },
  'a lease is returned to another window': { ...WINDOW_RULE, returnsToItsWindow: false },
  'a share shrinks below what its window has leased': { ...WINDOW_RULE, countsLeased: false },
  'a lease of a window is returned and spent': { ...WINDOW_RULE, returnsOnce: false },
}
