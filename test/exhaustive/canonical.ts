/**
 * One byte string for all states that behave alike.
 *
 * Clocks become ages that stop growing where no rule tells them apart; terms become ranks; cumulative figures
 * become differences; and what can change nothing any more is written as nothing: a figure below one already
 * known, an acknowledgement that extends no lease, a term that its receiver has left. So the states that can be
 * reached are finitely many, without a bound on time, on terms or on the units lent in all.
 *
 * A broken rule may look at what the real ones ignore. Then some states taken for equal are not, and a violation
 * could be missed, but one that is found is real: every state of a trace was made by the rules.
 */
import {
  at,
  type Borrow,
  type EpochStage,
  type Lend,
  type Message,
  type Region,
  type Scope,
  type State,
} from './state.ts'

const NONE = 255
const SWORN_DEAD = 254
const NO_LEASE = 253
const NOTHING_LENT: Message['lend'] = { term: -1, to: 0, lent: 0 }

const STAGES: Readonly<Record<EpochStage, number>> = { old: 0, least: 1, adopted: 2, closed: 3 }

/** Longest encoding there is room for; the scopes in use need a tenth. */
const BYTES_MAX = 2_048

/** Writes states into a buffer of its own, one at a time. `order`: which region stands where. */
export class StateEncoder {
  readonly bytes = new Uint8Array(BYTES_MAX)
  length = 0
  readonly #ttl: number
  /** Age at which a send dates nothing any more, even by a late clock. */
  readonly #expiry: number
  readonly #wait: number
  readonly #hasLosses: boolean
  readonly #order: readonly number[]

  constructor(scope: Scope, order: readonly number[]) {
    this.#ttl = scope.ttl
    this.#expiry = scope.ttl + scope.slack
    this.#wait = scope.lenderWait
    this.#hasLosses = scope.lossesMax > 0
    this.#order = order
  }

  encode(state: State): void {
    this.length = 0
    this.#put(state.restarts * 16 + state.losses * 2 + (state.isEpochClosed ? 1 : 0))
    this.#put(state.fence ?? NONE)
    for (const self of this.#order) this.#putRegion(state, self)
    for (const self of this.#order) {
      for (const peer of this.#order) {
        if (peer === self) continue
        this.#putHeard(state, self, peer)
        this.#putPair(state, self, peer)
      }
    }
  }

  #put(byte: number): void {
    this.bytes[this.length] = byte
    this.length += 1
  }

  #putRegion(state: State, self: number): void {
    const region = at(state.regions, self)
    const recovering = region.recoveringUntil
    this.#put(region.incarnation)
    this.#put(recovering === null ? NONE : recovering - region.clock)
    const flags = (region.isFresh ? 1 : 0) + (at(state.adoptedBy, self) ? 2 : 0)
    this.#put(STAGES[region.stage] * 4 + flags)
  }

  /** What `self` heard of `peer`, and the records from there on their way, as far as no pair shows them. */
  #putHeard(state: State, self: number, peer: number): void {
    const region = at(state.regions, self)
    const sender = at(state.regions, peer)
    const { heard, adopted } = at(region.peers, peer)
    const link = at(at(state.links, peer), self)
    this.#put(link.length * 2 + (adopted ? 1 : 0))
    if (heard === null) this.#put(NONE)
    else {
      this.#put(heard.incarnation)
      this.#putAge(sender, heard)
      this.#put(Math.min(this.#wait, region.clock - heard.at))
      this.#put(countNotNewer(link, heard.seq))
    }
    for (const message of link) {
      this.#put(message.incarnation * 2 + (message.adopted ? 1 : 0))
      this.#putAge(sender, message)
    }
  }

  /** How long ago a region sent what is or will be acknowledged to it; none once that dates nothing any more. */
  #putAge(sender: Region, sent: { readonly boot: number; readonly sentAt: number }): void {
    const age = sender.clock - sent.sentAt
    this.#put(sent.boot === sender.boot && age < this.#expiry ? age : NONE)
  }

  /** Everything that concerns loans of one region to another: both sides, and what is on its way both ways. */
  #putPair(state: State, lender: number, borrower: number): void {
    const from = at(state.regions, lender)
    const to = at(state.regions, borrower)
    const { lend } = at(from.peers, borrower)
    const { borrow } = at(to.peers, lender)
    const loans = at(at(state.links, lender), borrower)
    const order = from.incarnation - borrow.incarnation || lend.term - borrow.term
    const origin = order === 0 && !borrow.dead ? borrow.gaveBack : lend.returned
    this.#put(Math.sign(order) + 1)
    this.#put(lend.to)
    this.#put(lend.ackedAt === null ? NONE : Math.min(this.#wait, from.clock - lend.ackedAt))
    this.#put(lend.lent - origin)
    this.#put(origin - lend.returned)
    this.#putBorrow(to, borrow)
    this.#putLoans({ from, to, lend, borrow, loans })
    const returns = at(at(state.links, borrower), lender)
    for (const message of returns) this.#putReturn(message, from, lend)
    if (!this.#hasLosses) return
    this.#put(borrow.incarnation)
    if (from.recoveringUntil === null) return
    this.#put(at(from.peers, borrower).answer >= from.incarnation ? 1 : 0)
    for (const message of returns) {
      this.#put(message.borrow.incarnation >= from.incarnation ? 1 : 0)
    }
  }

  #putBorrow(to: Region, { until, dead, lent, gaveBack }: Borrow): void {
    if (dead) this.#put(NONE)
    else {
      this.#put(until === null ? NO_LEASE : until + this.#expiry - to.clock)
      this.#put(lent - gaveBack)
    }
  }

  #putLoans(pair: PairView): void {
    let previous = NOTHING_LENT
    for (const message of pair.loans) {
      const order = orderOf(message, pair.borrow)
      const isOver = order < 0 || (order === 0 && pair.borrow.dead)
      if (isOver || message.lend.to !== pair.to.incarnation) this.#put(NONE)
      else {
        this.#putLoan(message, pair, { order, isSame: message.lend.term === previous.term })
        previous = message.lend
      }
    }
  }

  #putLoan(
    { incarnation, lend, ack }: Message,
    { from, to, lend: present, borrow }: PairView,
    { order, isSame }: { readonly order: number; readonly isSame: boolean },
  ): void {
    const isPresent = incarnation === from.incarnation && lend.term === present.term
    // Terms between the borrower's and the lender's differ only by being the same or not.
    const between = isSame ? 2 : 3
    this.#put(order === 0 ? 0 : isPresent ? 1 : between)
    const until = order === 0 ? borrow.until : null
    this.#put(this.#isDating(ack, to, until) ? to.clock - (ack?.sentAt ?? 0) : NONE)
    this.#put(order === 0 ? Math.max(0, lend.lent - borrow.lent) : lend.lent)
  }

  /** True when an acknowledgement makes a lease longer than it is. */
  #isDating(ack: Message['ack'], to: Region, until: number | null): boolean {
    if (ack === null || ack.boot !== to.boot || to.clock - ack.sentAt >= this.#expiry) return false
    return until === null || ack.sentAt + this.#ttl > until
  }

  #putReturn(message: Message, from: Region, lend: Lend): void {
    const { incarnation, term, dead, gaveBack } = message.borrow
    const isOfLend =
      incarnation === from.incarnation && term === lend.term && message.incarnation === lend.to
    this.#put(!isOfLend ? NONE : dead ? SWORN_DEAD : Math.max(0, gaveBack - lend.returned))
  }
}

interface PairView {
  readonly from: Region
  readonly to: Region
  readonly lend: Lend
  readonly borrow: Borrow
  readonly loans: readonly Message[]
}

/** Positive when a record is of a later term of the lender than the borrower is in. */
function orderOf(message: Message, borrow: Borrow): number {
  return message.incarnation - borrow.incarnation || message.lend.term - borrow.term
}

function countNotNewer(link: readonly Message[], seq: number): number {
  let count = 0
  for (const message of link) if (message.seq <= seq) count += 1
  return count
}
