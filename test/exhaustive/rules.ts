/**
 * The rules of lending, one function each: what one region does when it acts, hears a peer, or restarts.
 *
 * They read like the protocol's own rules and serve as an executable page of them. Each takes a region and gives
 * its next state. `mutant` tests stand where a rule stands, so that leaving it out is visible here.
 */
import { held, leastBase, lendable, outstanding } from './shares.ts'
import {
  at,
  type Borrow,
  type EpochStage,
  type Heard,
  type Lend,
  type Message,
  type Peer,
  type Region,
  STRANGER,
  type World,
  withAt,
} from './state.ts'

/** SEND: what the region's next record says to each receiver; acknowledging is what renews loans. */
export function send(
  world: World,
  region: Region,
  self: number,
): { readonly region: Region; readonly messageTo: (receiver: number) => Message } {
  const isRecovering = region.recoveringUntil !== null
  const seq = region.seq + 1
  const peers = region.peers.map((peer) => {
    const { heard, lend } = peer
    const isRenewed = heard !== null && !isRecovering && lend.to === heard.incarnation
    return isRenewed ? { ...peer, lend: { ...lend, ackedAt: heard.at } } : peer
  })
  const messageTo = (receiver: number): Message => {
    const { heard, lend, borrow } = at(peers, receiver)
    const early = toldTooEarly(world, region, self, receiver)
    return {
      incarnation: region.incarnation,
      boot: region.boot,
      seq,
      sentAt: region.clock,
      ack: heard === null || isRecovering ? null : { boot: heard.boot, sentAt: heard.sentAt },
      lend: { term: lend.term, to: lend.to, lent: lend.lent + early.lent },
      borrow: {
        incarnation: answerOf(world, borrow, heard),
        term: borrow.term,
        dead: borrow.dead,
        gaveBack: borrow.gaveBack + early.gaveBack,
      },
      adopted: region.stage === 'adopted' || region.stage === 'closed',
    }
  }
  return { region: { ...region, seq, peers, isFresh: false }, messageTo }
}

/** The latest incarnation of a peer of whose former ones this region uses nothing. */
function answerOf(world: World, borrow: Borrow, heard: Heard | null): number {
  const isUnheeding = world.mutant === 'answers-without-letting-go' && heard !== null
  return isUnheeding ? heard.incarnation : borrow.incarnation
}

/** What the two mutants that publish first add to a record: a move that the share does not show yet. */
function toldTooEarly(
  world: World,
  region: Region,
  self: number,
  receiver: number,
): { readonly lent: number; readonly gaveBack: number } {
  const { lend, borrow } = at(region.peers, receiver)
  const canLend = lend.to !== 0 && lendable(world, region, self) > 0
  const canGive = held(borrow) > 0
  return {
    lent: world.mutant === 'publishes-before-shrink' && canLend ? 1 : 0,
    gaveBack: world.mutant === 'returns-before-shrink' && canGive ? 1 : 0,
  }
}

/** RECEIVE. A record that is not newer than the newest processed one is dropped. */
export function receive(world: World, region: Region, from: number, message: Message): Region {
  const known = at(region.peers, from)
  if (known.heard !== null && !isNewer(message, known.heard)) return region
  if (message.incarnation < known.borrow.incarnation) return region
  const { incarnation, boot, seq, sentAt } = message
  const peer: Peer = {
    heard: { incarnation, boot, seq, sentAt, at: region.clock },
    lend: receiveReturns(world, region, known.lend, message),
    borrow: receiveLoans(world, region, followLife(world, known.borrow, message), message),
    adopted: known.adopted || message.adopted,
    answer: Math.max(known.answer, message.borrow.incarnation),
  }
  return { ...region, isFresh: true, peers: withAt(region.peers, from, peer) }
}

/** A later life of a lender: nothing of the former one is used any more, which is what its next record says. */
function followLife(world: World, borrow: Borrow, { incarnation }: Message): Borrow {
  if (incarnation <= borrow.incarnation || world.mutant === 'answers-without-letting-go') {
    return borrow
  }
  return { ...beginTerm(incarnation, 0), dead: true }
}

/** END OF RECOVERY: before its time only once every peer has said that it uses no forgotten loan. */
export function recover(world: World, region: Region, self: number): Region | null {
  if (region.recoveringUntil === null) return null
  const isAnswered = region.peers.every(
    ({ answer }, peer) => peer === self || answer >= region.incarnation,
  )
  if (!isAnswered && world.mutant !== 'recovers-without-an-answer') return null
  return { ...region, recoveringUntil: null, isFresh: true }
}

/** As lender: notes what came back in the present term, and takes all back when the borrower swears it is dead. */
function receiveReturns(world: World, region: Region, lend: Lend, message: Message): Lend {
  const { incarnation, term, dead, gaveBack } = message.borrow
  const isOfTerm =
    incarnation === region.incarnation && term === lend.term && message.incarnation === lend.to
  if (!isOfTerm && world.mutant !== 'returns-not-term-scoped') return lend
  const returned = Math.max(lend.returned, Math.min(gaveBack, lend.lent))
  return dead && isOfTerm ? nextTerm(lend) : { ...lend, returned }
}

/** As borrower: follows the lender's term, takes the greatest figure, and dates the lease by the own send. */
function receiveLoans(world: World, region: Region, borrow: Borrow, message: Message): Borrow {
  const { term, to, lent } = message.lend
  if (to !== region.incarnation && world.mutant !== 'loan-not-addressed') return borrow
  const order = message.incarnation - borrow.incarnation || term - borrow.term
  if (order < 0) return borrow
  const known = order > 0 ? beginTerm(message.incarnation, term) : borrow
  const grown = world.mutant === 'delta-grants' ? known.lent + lent : Math.max(known.lent, lent)
  return renew(world, region, { ...known, lent: grown }, message)
}

/** The lease runs from the own send. An acknowledgement too old to extend it changes nothing. */
function renew(world: World, region: Region, borrow: Borrow, message: Message): Borrow {
  const { ack } = message
  const isRevivable = world.mutant === 'revives-lapsed-term'
  if (ack === null || ack.boot !== region.boot || (borrow.dead && !isRevivable)) return borrow
  const from = world.mutant === 'lease-dated-at-receipt' ? region.clock : ack.sentAt
  const until = Math.max(borrow.until ?? Number.NEGATIVE_INFINITY, from + world.scope.ttl)
  return region.clock < until + world.scope.slack ? { ...borrow, until, dead: false } : borrow
}

function beginTerm(incarnation: number, term: number): Borrow {
  return { ...STRANGER.borrow, incarnation, term }
}

/** LAPSE: by the own clock the loans of a term are over; never revived, and said so in the next record. */
export function lapse(region: Region, lender: number): Region | null {
  const peer = at(region.peers, lender)
  const { until, dead } = peer.borrow
  if (dead || until === null || region.clock < until) return null
  return withPeer(region, lender, { ...peer, borrow: { ...peer.borrow, dead: true } })
}

/** Time passes at a region: recovery ends, and what must have lapsed even by a late clock has. */
export function pass(world: World, region: Region, clock: number): Region {
  const { recoveringUntil } = region
  return {
    ...region,
    clock,
    isFresh: true,
    recoveringUntil: recoveringUntil !== null && clock < recoveringUntil ? recoveringUntil : null,
    peers: region.peers.map((peer) => {
      const { borrow } = peer
      const isOver = borrow.until !== null && clock >= borrow.until + world.scope.slack
      return isOver && !borrow.dead ? { ...peer, borrow: { ...borrow, dead: true } } : peer
    }),
  }
}

/**
 * GRANT: lends `units` of the own base. The share is durably smaller when this returns, before any record tells
 * of it. A peer in another incarnation begins a term, which needs the loans of the former one to be over.
 */
export function grant(
  world: World,
  { region, self, to }: { readonly region: Region; readonly self: number; readonly to: number },
  units: number,
): Region | null {
  if (region.recoveringUntil !== null) return null
  const peer = at(region.peers, to)
  if (peer.heard === null || units > lendable(world, region, self)) return null
  const isNewTerm = peer.lend.to !== peer.heard.incarnation
  if (isNewTerm && outstanding(peer.lend) > 0) return null
  const term = isNewTerm ? { ...nextTerm(peer.lend), to: peer.heard.incarnation } : peer.lend
  return withPeer(region, to, { ...peer, lend: { ...term, lent: term.lent + units } })
}

/** RETURN: gives borrowed units back; the share is durably smaller before any record tells of it. */
export function giveBack(region: Region, lender: number, units: number): Region | null {
  const peer = at(region.peers, lender)
  if (region.recoveringUntil !== null || held(peer.borrow) < units) return null
  const gaveBack = peer.borrow.gaveBack + units
  return withPeer(region, lender, { ...peer, borrow: { ...peer.borrow, gaveBack } })
}

/** RECLAIM: the lender has waited longer than any lease that it renewed can last, and takes everything back. */
export function reclaim(world: World, region: Region, from: number): Region | null {
  const peer = at(region.peers, from)
  if (outstanding(peer.lend) === 0) return null
  const { ackedAt } = peer.lend
  const wait = world.mutant === 'no-drift-margin' ? world.scope.ttl : world.scope.lenderWait
  const isOver = ackedAt === null || region.clock - ackedAt >= wait
  if (!isOver && world.mutant !== 'reclaims-without-waiting') return null
  return withPeer(region, from, { ...peer, lend: nextTerm(peer.lend) })
}

function nextTerm(lend: Lend): Lend {
  return { ...STRANGER.lend, term: lend.term + 1 }
}

/** ADOPT: a region takes on the new base; a donor only once its loans fit in what it keeps. */
export function adopt(world: World, region: Region, self: number): Region | null {
  const isRecovering = region.recoveringUntil !== null && world.mutant !== 'amnesiac-adopts-early'
  const isUndecided = region.stage === 'old' || region.stage === 'least'
  if (world.scope.nextBase === null || !isUndecided || isRecovering) return null
  const lent = region.peers.reduce((sum, peer) => sum + outstanding(peer.lend), 0)
  const least = leastBase(world.scope, self)
  // Beside the floor: after amnesia the region uses that at once, while the loans it forgot may still be used.
  const floor = world.mutant === 'adopts-without-room-for-floor' ? 0 : at(world.scope.floor, self)
  const hasRoom = lent + floor <= least || world.mutant === 'donor-adopts-with-loans-out'
  if (least < at(world.scope.base, self) && !hasRoom) return null
  return { ...region, stage: 'adopted', isFresh: true }
}

/** A restart that finds the store as it was: everything borrowed is dead, and it waits anew as lender. */
export function restart(world: World, region: Region): Region {
  const peers = region.peers.map((peer): Peer => {
    const { lend, borrow } = peer
    const ackedAt = world.mutant === 'restart-forgets-waiting' ? null : region.clock
    return {
      heard: null,
      lend: { ...lend, ackedAt },
      borrow: { ...borrow, until: null, dead: true },
      adopted: false,
      answer: 0,
    }
  })
  return { ...region, boot: region.boot + 1, isFresh: true, peers }
}

/** Amnesia: a new incarnation with nothing but its floor until whatever it lent is over. */
export function loseMemory(world: World, region: Region, stage: EpochStage): Region {
  const wait =
    world.mutant === 'amnesia-without-wait' ? null : region.clock + world.scope.lenderWait
  return {
    ...region,
    incarnation: region.incarnation + 1,
    boot: region.boot + 1,
    recoveringUntil: wait,
    stage: world.mutant === 'amnesiac-uses-old-base' ? 'old' : stage,
    isFresh: true,
    peers: region.peers.map(() => STRANGER),
  }
}

/** True when `message` is of a later incarnation, or of the same and sent later. */
export function isNewer(
  message: Message,
  heard: { readonly incarnation: number; readonly seq: number },
): boolean {
  if (message.incarnation !== heard.incarnation) return message.incarnation > heard.incarnation
  return message.seq > heard.seq
}

function withPeer(region: Region, index: number, peer: Peer): Region {
  return { ...region, isFresh: true, peers: withAt(region.peers, index, peer) }
}
