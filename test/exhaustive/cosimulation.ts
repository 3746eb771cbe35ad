/**
 * The product's ledger and the model of the rules, side by side through the same history.
 *
 * Each region is run twice. The product decides what to do; the model is asked whether a rule allows it: every
 * loan, return, lapse, take-back and end of a recovery. After each step the share that the product's store
 * enforces must be one that the model allows. So what the search proves of the model's small worlds is about the
 * rules that the product follows.
 */
import { floorOf } from '../../shared/core/base-split.ts'
import { counterId } from '../../shared/core/counter-id.ts'
import { DRIFT, TICK_MS } from '../../shared/core/ledger/constants.ts'
import type { LedgerEvent } from '../../shared/core/ledger/types.ts'
import { POOL_UNITS } from '../../shared/core/units.ts'
import { Random } from '../simulation/model/random.ts'
import {
  type CosimulationOptions,
  Disagreement,
  type Lane,
  type Moves,
  type Parcel,
} from './lanes.ts'
import { aLimit, LOAN_TIMES, ProductionRegion, sumOfShares } from './production.ts'
import {
  giveBack,
  grant,
  lapse,
  loseMemory,
  pass,
  receive,
  reclaim,
  recover,
  restart,
  send,
} from './rules.ts'
import { outstanding, shareOf } from './shares.ts'
import { at, initialState, type Region, type Scope, type World } from './state.ts'

const STEP_MS = 50
const MEASURE_MS = 250
const KEY = counterId({ group: 0, limitId: 1, usageEpoch: 0, name: 'k=v' })

/** Runs one random history. Throws a Disagreement at the first step that the rules do not allow. */
export function cosimulate(options: CosimulationOptions): Moves {
  return new Cosimulation(options).run(options.forMs)
}

class Cosimulation {
  readonly #random: Random
  readonly #world: World
  readonly #lanes: readonly Lane[]
  readonly #moves: Moves = {
    loans: 0,
    returns: 0,
    takenBack: 0,
    lapses: 0,
    restarts: 0,
    losses: 0,
    answered: 0,
  }
  #parcels: Parcel[] = []
  #nowMs = 0
  #loss = 0

  constructor({ seed, regions, model }: CosimulationOptions) {
    this.#random = new Random(seed)
    const names = ['a', 'b', 'c'].slice(0, regions)
    const units = this.#someBase(regions)
    const base = Object.fromEntries(names.map((name, index) => [name, at(units, index)]))
    const limit = aLimit(base, this.#random.pick([0, 2, 10]))
    const scope: Scope = {
      name: 'product',
      base: units,
      nextBase: null,
      floor: units.map((part) => floorOf(part, limit)),
      ...LOAN_TIMES,
      // The product's lanes have clocks of their own, and say themselves when their loans lapse.
      slack: Number.POSITIVE_INFINITY,
      inFlightMax: 0,
      restartsMax: 0,
      lossesMax: 0,
      ...model,
    }
    this.#world = { scope, mutant: null }
    const { regions: models } = initialState(scope)
    this.#lanes = names.map((name, index) => ({
      name,
      production: new ProductionRegion(name, { members: names, limit, keyId: KEY }),
      model: at(models, index),
      rate: 1 + this.#random.between(-DRIFT, DRIFT),
      offsetMs: this.#random.between(0, 1e6),
      recoversAt: Number.NEGATIVE_INFINITY,
      demand: 0,
      admitted: 0,
      denied: 0,
    }))
    for (const lane of this.#lanes) lane.production.start('first', this.#clock(lane))
  }

  run(forMs: number): Moves {
    for (; this.#nowMs < forMs; this.#nowMs += STEP_MS) {
      if (this.#random.chance(0.01)) this.#loss = this.#random.pick([0, 0.3, 1])
      for (let self = 0; self < this.#lanes.length; self++) this.#stepLane(self)
      this.#deliverDue()
      const sum = sumOfShares(
        this.#lanes.map((lane) => lane.production),
        (index) => this.#clock(at(this.#lanes, index)),
      )
      if (sum > POOL_UNITS) throw new Disagreement(`the shares sum to ${sum}`)
    }
    return this.#moves
  }

  #someBase(regions: number): readonly number[] {
    const cuts = Array.from({ length: regions - 1 }, () => this.#random.whole(0, 10) * 100_000)
    const edges = [0, ...cuts.sort((one, other) => one - other), POOL_UNITS]
    return edges.slice(1).map((edge, index) => edge - at(edges, index))
  }

  #clock(lane: Lane): number {
    return lane.offsetMs + this.#nowMs * lane.rate
  }

  #stepLane(self: number): void {
    const lane = at(this.#lanes, self)
    const random = this.#random
    if (random.chance(0.005)) lane.demand = random.pick([0, 0, 50, 400, 900, 2_000])
    if (random.chance(0.001)) this.#crash(self)
    const granted = (lane.production.share(this.#clock(lane)) / POOL_UNITS) * 1_000
    const attempts = (lane.demand * STEP_MS) / 1_000
    const admitted = Math.min(attempts, (granted * STEP_MS) / 1_000)
    lane.admitted += admitted
    lane.denied += attempts - admitted
    if (this.#nowMs % MEASURE_MS === 0) this.#act(self, this.#reading(lane), null)
    if (random.chance(STEP_MS / TICK_MS)) this.#act(self, { kind: 'tick' }, null)
    if (lane.production.wantsToPublish) this.#publish(self)
  }

  #reading({ admitted, denied, demand }: Lane): LedgerEvent {
    const sample = {
      id: KEY,
      admitted: Math.floor(admitted),
      denied: Math.floor(denied),
      returned: 0,
    }
    const noticed = demand > 0 ? [KEY] : []
    return { kind: 'measured', storeOffsetMs: 0, samples: [sample], noticed, missing: [] }
  }

  #publish(self: number): void {
    const lane = at(this.#lanes, self)
    const record = lane.production.publish(this.#clock(lane))
    this.#pass(lane)
    const sent = send(this.#world, lane.model, self)
    lane.model = sent.region
    for (let to = 0; to < this.#lanes.length; to++) {
      if (to === self || this.#random.chance(this.#loss)) continue
      const message = sent.messageTo(to)
      const copies = this.#random.chance(0.1) ? 2 : 1
      for (let copy = 0; copy < copies; copy++) {
        const delayMs = this.#random.pick([20, 100, 100, 100, 3_000, 12_000])
        this.#parcels.push({ from: self, to, record, message, dueMs: this.#nowMs + delayMs })
      }
    }
  }

  #deliverDue(): void {
    const due = this.#parcels.filter(({ dueMs }) => dueMs <= this.#nowMs)
    this.#parcels = this.#parcels.filter(({ dueMs }) => dueMs > this.#nowMs)
    for (const parcel of due) {
      this.#act(parcel.to, { kind: 'record', record: parcel.record }, parcel)
    }
  }

  #crash(self: number): void {
    const lane = at(this.#lanes, self)
    const isRecovering = lane.production.state.recoveringUntilMs !== null
    // The monotonic clock of the next life begins anywhere.
    lane.offsetMs = this.#random.between(0, 1e6) - this.#nowMs
    lane.rate = 1 + this.#random.between(-DRIFT, DRIFT)
    const clock = this.#clock(lane)
    const model = { ...lane.model, clock }
    if (!isRecovering && this.#random.chance(0.5)) {
      this.#moves.restarts += 1
      lane.model = restart(this.#world, model)
      lane.recoversAt = Number.NEGATIVE_INFINITY
      lane.production.start('kept', clock)
    } else {
      this.#moves.losses += 1
      lane.model = loseMemory(this.#world, model, 'old')
      lane.recoversAt = lane.model.recoveringUntil ?? 0
      lane.production.start('lost', clock)
    }
    this.#check(lane, self)
  }

  /** Lets the model's clock catch up. It recovers when the product does, or later when that must be allowed. */
  #pass(lane: Lane): void {
    const clock = this.#clock(lane)
    const isRecovering = lane.production.state.recoveringUntilMs !== null
    const isWaiting = isRecovering || clock < lane.recoversAt
    const model = pass(this.#world, lane.model, clock)
    lane.model = { ...model, recoveringUntil: isWaiting ? Number.POSITIVE_INFINITY : null }
  }

  /** A recovery that ended before its time must be one that every peer has answered. */
  #followRecovery(lane: Lane, self: number): void {
    const isRecovering = lane.production.state.recoveringUntilMs !== null
    if (isRecovering || lane.model.recoveringUntil === null) return
    this.#moves.answered += 1
    lane.recoversAt = Number.NEGATIVE_INFINITY
    lane.model = this.#allowed(recover(this.#world, lane.model, self), lane, 'ends its recovery')
  }

  /** One event at a region: the product acts on it, then the model has to allow each thing that it did. */
  #act(self: number, event: LedgerEvent, parcel: Parcel | null): void {
    const lane = at(this.#lanes, self)
    const clock = this.#clock(lane)
    const before = this.#lanes.map(({ name }) => ({
      pair: lane.production.pairWith(name),
      givenBack: lane.production.givenBackTo(name),
    }))
    lane.production.act(event, clock)
    this.#pass(lane)
    for (let peer = 0; peer < this.#lanes.length; peer++) {
      if (peer !== self) this.#followLapse(lane, peer, at(before, peer).pair)
    }
    if (parcel !== null) {
      lane.model = receive(this.#world, lane.model, parcel.from, parcel.message)
    }
    this.#followRecovery(lane, self)
    const peers = before.map((_, peer) => peer).filter((peer) => peer !== self)
    // One step may take loans back from one peer and lend the same units to another.
    for (const peer of peers) this.#followTakeBack(lane, peer)
    for (const peer of peers) {
      this.#followLoans(lane, self, peer)
      this.#followReturns(lane, peer, at(before, peer).givenBack)
    }
    this.#check(lane, self)
  }

  #followLapse(lane: Lane, peer: number, before: ReturnType<ProductionRegion['pairWith']>): void {
    if (before.untilMs === null || before.borrow.dead) return
    const { borrow, untilMs } = lane.production.pairWith(at(this.#lanes, peer).name)
    if (!borrow.dead && untilMs !== null) return
    const isSameTerm =
      borrow.incarnation === before.borrow.incarnation && borrow.term === before.borrow.term
    // A lender may begin the next term while this one still runs; what was lent in it is over then.
    if (!isSameTerm && this.#clock(lane) < before.untilMs) return
    this.#moves.lapses += 1
    lane.model = this.#allowed(lapse(lane.model, peer), lane, 'lets loans lapse')
  }

  #followTakeBack(lane: Lane, peer: number): void {
    const { term } = lane.production.pairWith(at(this.#lanes, peer).name).lend
    const { lend } = at(lane.model.peers, peer)
    if (outstanding(lend) === 0 || lend.term >= term) return
    this.#moves.takenBack += 1
    const taken = reclaim(this.#world, lane.model, peer)
    lane.model = this.#allowed(taken, lane, 'takes loans back')
  }

  #followLoans(lane: Lane, self: number, peer: number): void {
    const { name } = at(this.#lanes, peer)
    const counted = outstanding(at(lane.model.peers, peer).lend)
    const units = lane.production.outstandingTo(name) - counted
    if (units < 0)
      throw new Disagreement(`${lane.name} counts ${-units} too few as lent to ${name}`)
    if (units === 0) return
    this.#moves.loans += 1
    const lent = grant(this.#world, { region: lane.model, self, to: peer }, units)
    lane.model = this.#allowed(lent, lane, `lends ${units}`)
  }

  #followReturns(
    lane: Lane,
    peer: number,
    before: ReturnType<ProductionRegion['givenBackTo']>,
  ): void {
    const { life, units } = lane.production.givenBackTo(at(this.#lanes, peer).name)
    const more = units - (life === before.life ? before.units : 0)
    if (more <= 0) return
    this.#moves.returns += 1
    lane.model = this.#allowed(giveBack(lane.model, peer, more), lane, `gives ${more} back`)
  }

  #allowed(next: Region | null, lane: Lane, what: string): Region {
    if (next === null) throw new Disagreement(`${lane.name} ${what}, which no rule allows`)
    return next
  }

  /** The product may use what the model allows of loans that still run, and no more. */
  #check(lane: Lane, self: number): void {
    const { clock, peers } = lane.model
    const running = peers.map((peer) => {
      const isOver = peer.borrow.until === null || clock >= peer.borrow.until
      return isOver ? { ...peer, borrow: { ...peer.borrow, until: null } } : peer
    })
    const allowed = shareOf(this.#world, { ...lane.model, peers: running }, self)
    const used = lane.production.share(this.#clock(lane))
    if (used > allowed) throw new Disagreement(`${lane.name} uses ${used}, allowed are ${allowed}`)
  }
}
