/**
 * Everything that can happen next in a state. A record is lost by never being delivered, or by giving up its
 * place in flight to a later one; so each direction loses on its own.
 */
import {
  adopt,
  giveBack,
  grant,
  isNewer,
  lapse,
  loseMemory,
  pass,
  receive,
  reclaim,
  recover,
  restart,
  send,
} from './rules.ts'
import { isFenced, nameOf } from './shares.ts'
import {
  at,
  type EpochStage,
  type Message,
  type Region,
  type Scope,
  type State,
  type World,
  withAt,
} from './state.ts'

/** Takes the next state with a function that names the action; names are only made for traces. */
export type Visit = (next: State, describe: () => string) => void

/** Calls `visit` with every next state, in an order that depends on the state only. */
export function visitNext(world: World, state: State, visit: Visit): void {
  visitTick(world, state, visit)
  for (let self = 0; self < state.regions.length; self++) {
    if (isFenced(state, self)) continue
    visitSends(world, state, self, visit)
    visitCrashes(world, state, self, visit)
    visitRecovery(world, state, self, visit)
    visitEpoch(world, state, self, visit)
    for (let peer = 0; peer < state.regions.length; peer++) {
      if (peer === self) continue
      visitDeliveries(world, state, { from: peer, to: self }, visit)
      visitMoves(world, state, self, peer, visit)
    }
  }
  visitClose(world, state, visit)
  visitCertificate(world, state, visit)
}

function visitTick(world: World, state: State, visit: Visit): void {
  const regions = state.regions.map((region) => pass(world, region, region.clock + 1))
  const fence = state.fence === null ? null : Math.max(0, state.fence - 1)
  visit({ ...state, regions, fence }, () => 'a tick passes')
}

function visitSends(world: World, state: State, self: number, visit: Visit): void {
  const region = at(state.regions, self)
  if (!region.isFresh) return
  const sent = send(world, region, self)
  const adoptedBy =
    region.stage === 'adopted' ? withAt(state.adoptedBy, self, true) : state.adoptedBy
  const regions = withAt(state.regions, self, sent.region)
  const choices = at(state.links, self).map((link, to) =>
    to === self ? [link] : linksAfter(link, sent.messageTo(to), world.scope.inFlightMax),
  )
  for (const links of combinations(choices)) {
    visit(
      { ...state, regions, adoptedBy, links: withAt(state.links, self, links) },
      () => `${nameOf(self)} sends a record`,
    )
  }
}

/** The link with one record more; where there is no room, every choice of the one that is lost. */
function linksAfter(
  link: readonly Message[],
  message: Message,
  inFlightMax: number,
): readonly (readonly Message[])[] {
  const longer = [...link, message]
  if (longer.length <= inFlightMax) return [longer]
  return longer.map((_, lost) => longer.filter((_message, index) => index !== lost))
}

function combinations<Value>(
  choices: readonly (readonly Value[])[],
): readonly (readonly Value[])[] {
  return choices.reduce<readonly (readonly Value[])[]>(
    (rows, options) => rows.flatMap((row) => options.map((option) => [...row, option])),
    [[]],
  )
}

function visitDeliveries(
  world: World,
  state: State,
  { from, to }: { readonly from: number; readonly to: number },
  visit: Visit,
): void {
  const region = at(state.regions, to)
  for (const message of at(at(state.links, from), to)) {
    const next = receive(world, region, from, message)
    if (next === region) continue
    const delivered = { ...state, regions: withAt(state.regions, to, next) }
    visit(
      withoutSpent(world.scope, delivered),
      () => `${nameOf(to)} hears record ${message.seq} of ${nameOf(from)}`,
    )
  }
}

/** Moves are of one unit: more at once is the same as several without a record in between. */
function visitMoves(world: World, state: State, self: number, peer: number, visit: Visit): void {
  const region = at(state.regions, self)
  const [me, other] = [nameOf(self), nameOf(peer)]
  const visitIf = (next: Region | null, describe: () => string): void => {
    if (next !== null) visit({ ...state, regions: withAt(state.regions, self, next) }, describe)
  }
  visitIf(grant(world, { region, self, to: peer }, 1), () => `${me} lends 1 to ${other}`)
  visitIf(giveBack(region, peer, 1), () => `${me} gives 1 back to ${other}`)
  visitIf(lapse(region, peer), () => `the loans of ${me} from ${other} lapse`)
  visitIf(reclaim(world, region, peer), () => `${me} takes back what it lent to ${other}`)
}

function visitCrashes(world: World, state: State, self: number, visit: Visit): void {
  const { scope } = world
  const region = at(state.regions, self)
  const crash = (next: Region, count: 'restarts' | 'losses', what: string): void => {
    const crashed = { ...state, regions: withAt(state.regions, self, next) }
    visit(
      withoutSpent(scope, { ...crashed, [count]: state[count] + 1 }),
      () => `${nameOf(self)} ${what}`,
    )
  }
  if (state.restarts < scope.restartsMax) crash(restart(world, region), 'restarts', 'restarts')
  if (state.losses >= scope.lossesMax) return
  for (const stage of stagesAfterAmnesia(world, state)) {
    crash(loseMemory(world, region, stage), 'losses', 'loses its memory')
  }
}

function visitRecovery(world: World, state: State, self: number, visit: Visit): void {
  const recovered = recover(world, at(state.regions, self), self)
  if (recovered === null) return
  const next = { ...state, regions: withAt(state.regions, self, recovered) }
  visit(next, () => `${nameOf(self)} has every answer and recovers`)
}

/** What the plane tells a region that comes back: no epoch yet, while nobody adopted one; the open one; the closed. */
function stagesAfterAmnesia({ scope }: World, state: State): readonly EpochStage[] {
  if (scope.nextBase === null) return ['old']
  if (state.isEpochClosed) return ['closed']
  const isPossiblyUnopened = state.regions.every((region) => region.stage === 'old')
  return isPossiblyUnopened ? ['old', 'least'] : ['least']
}

function visitEpoch(world: World, state: State, self: number, visit: Visit): void {
  if (world.scope.nextBase === null) return
  const region = at(state.regions, self)
  const adopted = adopt(world, region, self)
  if (adopted !== null) {
    visit(
      { ...state, regions: withAt(state.regions, self, adopted) },
      () => `${nameOf(self)} adopts the new base`,
    )
  }
  if (!state.isEpochClosed || region.stage !== 'adopted') return
  const closed: Region = { ...region, stage: 'closed' }
  visit(
    { ...state, regions: withAt(state.regions, self, closed) },
    () => `${nameOf(self)} learns that the epoch is closed`,
  )
}

function visitClose(world: World, state: State, visit: Visit): void {
  if (world.scope.nextBase === null || state.isEpochClosed) return
  if (!state.adoptedBy.every(Boolean)) return
  visit({ ...state, isEpochClosed: true }, () => 'the plane closes the epoch')
}

/** REMOVAL: the first region is fenced off; once all that it lent has ended, the certificate stands for its adoption. */
function visitCertificate({ scope, mutant }: World, state: State, visit: Visit): void {
  if (scope.isCertified !== true) return
  if (state.fence === null) {
    visit({ ...state, fence: scope.lenderWait }, () => `${nameOf(0)} is fenced off`)
    return
  }
  const counts = state.fence === 0 || mutant === 'certificate-counts-at-once'
  if (!counts || at(state.adoptedBy, 0)) return
  const adoptedBy = withAt(state.adoptedBy, 0, true)
  visit({ ...state, adoptedBy }, () => `the certificate of ${nameOf(0)} counts`)
}

/**
 * Takes out records that can do nothing any more: not newer than what their receiver processed, where no restart
 * can make it forget that. While one can, they stay, for they may be delivered again after it.
 */
function withoutSpent(scope: Scope, state: State): State {
  if (state.restarts < scope.restartsMax || state.losses < scope.lossesMax) return state
  let isChanged = false
  const links = state.links.map((row, from) =>
    row.map((link, to) => {
      const heard = at(at(state.regions, to).peers, from).heard
      if (heard === null || link.every((message) => isNewer(message, heard))) return link
      isChanged = true
      return link.filter((message) => isNewer(message, heard))
    }),
  )
  return isChanged ? { ...state, links } : state
}
