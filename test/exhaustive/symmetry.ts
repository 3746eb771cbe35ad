/** One representative for all states that differ only by the names of regions alike in base and floor. */
import { StateEncoder } from './canonical.ts'
import { at, type Peer, type Region, type Scope, type State } from './state.ts'

/**
 * Encodes states so that those which differ by a renaming of alike regions come out equal.
 *
 * Regions are put in the order of a number that does not depend on their names; only those that it leaves tied
 * are tried in every order, and the least encoding is taken.
 */
export class Canonicalizer {
  readonly #scope: Scope
  readonly #orders: readonly (readonly number[])[]
  readonly #encoders: readonly StateEncoder[]

  constructor(scope: Scope) {
    this.#scope = scope
    this.#orders = symmetriesOf(scope)
    this.#encoders = this.#orders.map((order) => new StateEncoder(scope, order))
  }

  /** The encoder that holds the canonical form of `state` until the next call. */
  encode(state: State): StateEncoder {
    if (this.#encoders.length === 1) return encoded(at(this.#encoders, 0), state)
    const ranks = state.regions.map((region, self) => rankOf(this.#scope, region, self))
    let least: StateEncoder | null = null
    for (let index = 0; index < this.#orders.length; index++) {
      if (!isSorted(ranks, at(this.#orders, index))) continue
      const other = encoded(at(this.#encoders, index), state)
      if (least === null || isLess(other, least)) least = other
    }
    return least ?? encoded(at(this.#encoders, 0), state)
  }
}

function encoded(encoder: StateEncoder, state: State): StateEncoder {
  encoder.encode(state)
  return encoder
}

/** A number for a region in which its name has no part. */
function rankOf(scope: Scope, region: Region, self: number): number {
  let rank = region.incarnation * 2 + (region.isFresh ? 1 : 0)
  for (let peer = 0; peer < region.peers.length; peer++) {
    if (peer !== self) rank += rankOfPeer(scope, region.clock, at(region.peers, peer))
  }
  return rank
}

function rankOfPeer(scope: Scope, clock: number, { heard, lend, borrow }: Peer): number {
  const heardAge = ageOf(clock, heard?.at ?? null, scope.lenderWait)
  const ackedAge = ageOf(clock, lend.ackedAt, scope.lenderWait)
  const lease = borrow.dead ? 0 : ageOf(clock + scope.ttl, borrow.until, NEVER)
  return ((heardAge * 8 + ackedAge) * 64 + lease) * 8 + (lend.lent - lend.returned)
}

const NEVER = 63

function ageOf(clock: number, instant: number | null, ageMax: number): number {
  return instant === null ? NEVER : Math.min(ageMax, clock - instant)
}

function isSorted(ranks: readonly number[], order: readonly number[]): boolean {
  for (let place = 1; place < order.length; place++) {
    if (at(ranks, at(order, place - 1)) > at(ranks, at(order, place))) return false
  }
  return true
}

function isLess(one: StateEncoder, other: StateEncoder): boolean {
  if (one.length !== other.length) return one.length < other.length
  for (let index = 0; index < one.length; index++) {
    const difference = (one.bytes[index] ?? 0) - (other.bytes[index] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}

/** The orders of regions in which the scope looks the same. */
function symmetriesOf(scope: Scope): readonly (readonly number[])[] {
  const regions = scope.base.map((_, index) => index)
  const isSame = (order: readonly number[]): boolean =>
    [scope.base, scope.floor, scope.nextBase ?? scope.base].every((units) =>
      order.every((region, place) => at(units, region) === at(units, place)),
    )
  return permutationsOf(regions).filter(isSame)
}

function permutationsOf(items: readonly number[]): readonly (readonly number[])[] {
  if (items.length <= 1) return [items]
  return items.flatMap((item) =>
    permutationsOf(items.filter((other) => other !== item)).map((rest) => [item, ...rest]),
  )
}
