/** What a region may use, and what must hold of it in every state. */
import { planTransfers } from '../../shared/core/base-split.ts'
import {
  at,
  type Borrow,
  type Lend,
  poolOf,
  type Region,
  type Scope,
  type State,
  type World,
} from './state.ts'

/** Units lent and not known to be back. */
export function outstanding(lend: Lend): number {
  return Math.max(0, lend.lent - lend.returned)
}

/** Units that a borrower may use. A loan whose time is up is dead; see `lapse` and `pass`. */
export function held(borrow: Borrow): number {
  return borrow.dead || borrow.until === null ? 0 : Math.max(0, borrow.lent - borrow.gaveBack)
}

/** The region's part of the pool as it may count on it: the old base, or what the open epoch leaves and adds. */
export function effectiveBase(world: World, region: Region, self: number): number {
  const { base, nextBase } = world.scope
  if (nextBase === null || region.stage === 'old') return at(base, self)
  if (region.stage === 'closed') return at(nextBase, self)
  let units = leastBase(world.scope, self)
  for (const transfer of transfersOf(world.scope)) {
    if (transfer.to !== self) continue
    const isHeard = at(region.peers, transfer.from).adopted
    if (isHeard || world.mutant === 'growers-do-not-wait') units += transfer.units
  }
  return units
}

/** The smaller of a region's two bases while an epoch is open. */
export function leastBase(scope: Scope, self: number): number {
  return Math.min(at(scope.base, self), at(scope.nextBase ?? scope.base, self))
}

interface PlannedTransfer {
  readonly from: number
  readonly to: number
  readonly units: number
}

const transfersByScope = new WeakMap<Scope, readonly PlannedTransfer[]>()

/** Who hands how many units to whom, by the function that the product uses. */
function transfersOf(scope: Scope): readonly PlannedTransfer[] {
  const known = transfersByScope.get(scope)
  if (known !== undefined) return known
  const named = (units: readonly number[]): Record<string, number> =>
    Object.fromEntries(units.map((part, index) => [String(index), part]))
  const plan = planTransfers(named(scope.base), named(scope.nextBase ?? scope.base)).map(
    ({ from, to, units }) => ({ from: Number(from), to: Number(to), units }),
  )
  transfersByScope.set(scope, plan)
  return plan
}

/** Units of its own that a region may still lend. Borrowed units are never lent on. */
export function lendable(world: World, region: Region, self: number): number {
  let units = effectiveBase(world, region, self) - at(world.scope.floor, self)
  for (let peer = 0; peer < region.peers.length; peer++) {
    if (peer === self) continue
    units -= outstanding(at(region.peers, peer).lend)
    if (world.mutant === 'lends-borrowed-units') units += held(at(region.peers, peer).borrow)
  }
  return units
}

/**
 * What the enforcers of a region may use. In an epoch a region may have lent more than it can count on for the
 * moment (a grower that restarted has to hear the donors again); it then uses nothing of its own.
 */
export function shareOf(world: World, region: Region, self: number): number {
  if (region.recoveringUntil !== null) return at(world.scope.floor, self)
  let own = effectiveBase(world, region, self)
  let borrowed = 0
  for (let peer = 0; peer < region.peers.length; peer++) {
    if (peer === self) continue
    const { lend, borrow } = at(region.peers, peer)
    own -= outstanding(lend)
    borrowed += held(borrow)
  }
  return (world.scope.nextBase === null ? own : Math.max(0, own)) + borrowed
}

/** True when a region admits nothing and says nothing any more. */
export function isFenced(state: State, self: number): boolean {
  return self === 0 && state.fence !== null
}

/** What is wrong with a state; null when every invariant holds. */
export function violationOf(world: World, state: State, poolMax: number): string | null {
  let sum = 0
  let bases = 0
  for (let self = 0; self < state.regions.length; self++) {
    // What is fenced off uses nothing, whatever it counts as its own.
    if (isFenced(state, self)) continue
    const region = at(state.regions, self)
    const share = shareOf(world, region, self)
    const least = world.scope.nextBase === null ? at(world.scope.floor, self) : 0
    if (share < least) return `INV-3: the share of ${nameOf(self)} is ${share}, less than ${least}`
    sum += share
    bases += effectiveBase(world, region, self)
  }
  if (sum > poolMax) return `INV-2: the shares sum to ${sum}, more than ${poolMax}`
  if (bases > poolOf(world.scope)) return `INV-4: the base parts sum to ${bases}`
  return pairViolationOf(world, state)
}

function pairViolationOf(world: World, state: State): string | null {
  for (let lender = 0; lender < state.regions.length; lender++) {
    const isRecovering = at(state.regions, lender).recoveringUntil !== null
    const violation = isRecovering
      ? recoveringViolationOf(world, state, lender)
      : lenderViolationOf(state, lender)
    if (violation !== null) return violation
  }
  return null
}

/** INV-1: what a borrower may use is at most what the lender counts as lent to it. */
function lenderViolationOf(state: State, lender: number): string | null {
  const { peers } = at(state.regions, lender)
  for (let borrower = 0; borrower < peers.length; borrower++) {
    if (borrower === lender) continue
    const units = heldOf(state, borrower, lender)
    const out = outstanding(at(peers, borrower).lend)
    if (units <= out) continue
    return `INV-1: ${nameOf(borrower)} holds ${units} of ${nameOf(lender)}, which counts ${out} as lent`
  }
  return null
}

/**
 * INV-1 for a lender that lost its memory: it counts nothing as lent, so all that others hold of it must fit in
 * its base beside the floor that it uses. Its base may be smaller than what it lent once an epoch is open; there
 * only the sum of shares can be held against it.
 */
function recoveringViolationOf({ scope }: World, state: State, lender: number): string | null {
  if (scope.nextBase !== null) return null
  const units = state.regions.reduce(
    (sum, _, borrower) => sum + (borrower === lender ? 0 : heldOf(state, borrower, lender)),
    0,
  )
  const lentMax = at(scope.base, lender) - at(scope.floor, lender)
  if (units <= lentMax) return null
  return `INV-1: ${units} are held of ${nameOf(lender)}, which recovers and lent at most ${lentMax}`
}

function heldOf(state: State, borrower: number, lender: number): number {
  const region = at(state.regions, borrower)
  return region.recoveringUntil !== null ? 0 : held(at(region.peers, lender).borrow)
}

/** Regions are called A, B, C in traces. */
export function nameOf(region: number): string {
  return String.fromCharCode(65 + region)
}
