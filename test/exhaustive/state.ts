/**
 * What the model of the lending protocol remembers: one key, N regions, the records in flight between them.
 *
 * Names and rules are those of the protocol; numbers are small. Everything is immutable, so that the search may
 * keep any state and share its parts with the next ones. Time is each region's own clock, in ticks; no rule
 * compares the clocks of two regions. In the search all advance together, and drift is that a loan may lapse late.
 */
import type { Mutant } from './mutants.ts'

/** The world that one search explores, and its bounds. */
export interface Scope {
  readonly name: string
  /** Home units of each region; their sum is the pool. */
  readonly base: readonly number[]
  /** The split of an open base epoch; null: there is none. */
  readonly nextBase: readonly number[] | null
  /** Units of its base that a region never lends. */
  readonly floor: readonly number[]
  /** Own ticks from the send of a record until a loan that its acknowledgement renewed has lapsed. */
  readonly ttl: number
  /** Own ticks from the receipt of the last acknowledged record until the lender takes its units back. */
  readonly lenderWait: number
  /** Ticks by which a borrower's clock may be late within one loan: then it lapses anywhere in so many more. */
  readonly slack: number
  /** Most records in flight from one region to another. One more takes the place of one, whichever: that is lost. */
  readonly inFlightMax: number
  /** Daemon restarts that keep the region's store, and losses of everything, in one history. */
  readonly restartsMax: number
  readonly lossesMax: number
  /** The first region may be fenced off, and an operator's certificate stands for its adoption later. */
  readonly isCertified?: boolean
}

/** The newest record of a peer that a region processed. `at`: own clock at the receipt. */
export interface Heard {
  readonly incarnation: number
  readonly boot: number
  readonly seq: number
  /** Sender's clock at the send. A ghost: the rules hand it back only to the boot that sent the record. */
  readonly sentAt: number
  readonly at: number
}

/** As lender to a peer. `lent` and `returned` are cumulative within the term. */
export interface Lend {
  readonly term: number
  /** The borrower's incarnation that this term is addressed to; 0: nothing may be lent in this term yet. */
  readonly to: number
  /** When the newest record that was acknowledged in this term arrived here. */
  readonly ackedAt: number | null
  readonly lent: number
  readonly returned: number
}

/** As borrower from a peer. `lent`: greatest figure heard in the term; `gaveBack`: this region's own. */
export interface Borrow {
  readonly incarnation: number
  readonly term: number
  readonly until: number | null
  readonly dead: boolean
  readonly lent: number
  readonly gaveBack: number
}

/** Everything that a region keeps of one peer. */
export interface Peer {
  readonly heard: Heard | null
  readonly lend: Lend
  readonly borrow: Borrow
  /** The peer was heard to have adopted the open base epoch. */
  readonly adopted: boolean
  /** The latest incarnation of this region of which the peer has said that it uses nothing of an earlier one. */
  readonly answer: number
}

/**
 * How far a region is with the base epoch. `old`: has not adopted, uses the old base. `least`: came back from
 * amnesia, so it uses the smaller of both bases and says nothing yet. `adopted`. `closed`: knows that all adopted.
 */
export type EpochStage = 'old' | 'least' | 'adopted' | 'closed'

export interface Region {
  readonly clock: number
  readonly incarnation: number
  /** Counts restarts of either kind: acknowledgements of an earlier boot's records date nothing. */
  readonly boot: number
  readonly seq: number
  readonly recoveringUntil: number | null
  readonly stage: EpochStage
  /** Something changed, or a tick passed, since the last record: one more says something. */
  readonly isFresh: boolean
  /** By region; the entry of the region itself is never used. */
  readonly peers: readonly Peer[]
}

/** What one record says to one receiver. */
export interface Message {
  readonly incarnation: number
  readonly boot: number
  readonly seq: number
  readonly sentAt: number
  /** The receiver's record that is acknowledged: its boot, and its clock at that send. */
  readonly ack: { readonly boot: number; readonly sentAt: number } | null
  readonly lend: { readonly term: number; readonly to: number; readonly lent: number }
  readonly borrow: {
    readonly incarnation: number
    readonly term: number
    readonly dead: boolean
    readonly gaveBack: number
  }
  readonly adopted: boolean
}

export interface State {
  readonly regions: readonly Region[]
  /** `links[from][to]`: records in flight, oldest first. Delivery may take any of them, and more than once. */
  readonly links: readonly (readonly (readonly Message[])[])[]
  readonly restarts: number
  readonly losses: number
  /** Regions whose adoption the plane has heard of; the epoch closes when it has heard of all. */
  readonly adoptedBy: readonly boolean[]
  readonly isEpochClosed: boolean
  /** Ticks until the certificate of the first region counts, which is fenced off; null: it is not. */
  readonly fence: number | null
}

/** The scope and the rule that is broken in it, if any. */
export interface World {
  readonly scope: Scope
  readonly mutant: Mutant | null
}

export const STRANGER: Peer = {
  heard: null,
  lend: { term: 0, to: 0, ackedAt: null, lent: 0, returned: 0 },
  borrow: { incarnation: 0, term: 0, until: null, dead: false, lent: 0, gaveBack: 0 },
  adopted: false,
  answer: 0,
}

/** Every region with its base, nobody met. */
export function initialState(scope: Scope): State {
  const peers = scope.base.map(() => STRANGER)
  return {
    regions: scope.base.map(() => ({
      clock: 0,
      incarnation: 1,
      boot: 0,
      seq: 0,
      recoveringUntil: null,
      stage: 'old',
      isFresh: true,
      peers,
    })),
    links: scope.base.map(() => scope.base.map(() => [])),
    restarts: 0,
    losses: 0,
    adoptedBy: scope.base.map(() => false),
    isEpochClosed: false,
    fence: null,
  }
}

export function poolOf(scope: Scope): number {
  return scope.base.reduce((sum, units) => sum + units, 0)
}

/** The element at a place that the caller knows to exist. */
export function at<Value>(list: readonly Value[], index: number): Value {
  const value = list[index]
  if (value === undefined) throw new RangeError(`no element ${index} in a list of ${list.length}`)
  return value
}

/** The list with another element at one place. */
export function withAt<Value>(
  list: readonly Value[],
  index: number,
  value: Value,
): readonly Value[] {
  const copy = list.slice()
  copy[index] = value
  return copy
}
