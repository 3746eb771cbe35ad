/**
 * A sync daemon around the real ledger: one event at a time, each effect confirmed before the next, and a crash or
 * a lost reply possible between any two.
 */

import { URGENT_SPACING_MS } from '../../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../../shared/core/ledger/record.ts'
import { createLedger, isNewer, type LedgerState } from '../../../shared/core/ledger/state.ts'
import { step } from '../../../shared/core/ledger/step.ts'
import type {
  Continuity,
  LedgerEffect,
  LedgerEvent,
  RegionRecord,
  ShareOutcome,
  ShareWrite,
} from '../../../shared/core/ledger/types.ts'
import type { Mutant } from '../mutants.ts'
import { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'
import type { Plane, StoreModel } from './store.ts'

export interface DaemonSetting {
  readonly region: string
  readonly random: Random
  readonly scheduler: Scheduler
  readonly store: StoreModel
  readonly mutant: Mutant
  /** Chance that a write's reply is lost, whether or not the write was. */
  readonly doubt: number
  readonly publish: (record: RegionRecord) => void
  readonly readPlane: () => Plane
}

/** A monotonic clock that runs a little too fast or too slow and begins anywhere. */
export interface Clock {
  readonly rate: number
  readonly offsetMs: number
}

export class DaemonModel {
  state: LedgerState
  /** Ends with each crash: what was on its way when it happened must not arrive. */
  #life = 0
  #isBusy = false
  #isUrgent = false
  #sentMs = Number.NEGATIVE_INFINITY
  #outcomes: ReadonlyMap<string, ShareOutcome> | null = null
  /** How late a write arrives that its daemon has given up on. */
  readonly #lateness = new Random(1)
  /** When the last write asked for reaches the store: they arrive in order. */
  #dueMs = 0
  #clock: Clock
  readonly skewMs: number
  #setting: DaemonSetting
  readonly #records = new Map<string, RegionRecord>()
  #others: LedgerEvent[] = []
  /** The newest plane that the ledger was given. */
  #given: Plane | null = null
  /** Rows of the record last sent. */
  #told: RegionRecord['rows'] = []

  constructor(setting: DaemonSetting, clock: Clock, skewMs: number) {
    this.#setting = setting
    this.#clock = clock
    this.skewMs = skewMs
    this.state = createLedger(setting.region)
  }

  get isUp(): boolean {
    return this.state.incarnation > 0
  }

  /** Nothing is on its way to the store. */
  get isIdle(): boolean {
    return !this.#isBusy
  }

  /** By its own monotonic clock. */
  nowMs(): number {
    return this.#clock.offsetMs + this.#setting.scheduler.nowMs * this.#clock.rate
  }

  /** By the region's wall clock, which labels windows. */
  storeMs(): number {
    return this.#setting.scheduler.nowMs + this.skewMs
  }

  /** Begins, or begins again after a crash or a restart of the store. */
  start(continuity: Continuity, clock?: Clock): void {
    this.#life += 1
    this.#isBusy = false
    this.#outcomes = null
    this.#others = []
    this.#isUrgent = false
    const { store, mutant } = this.#setting
    if (clock !== undefined) {
      this.#clock = clock
      this.#records.clear()
      this.state = createLedger(this.state.self)
    }
    if (continuity === 'lost' || continuity === 'first') store.incarnation += 1
    store.fence += 1
    const firstSeq = store.seqReserved
    if (mutant.reusesSeq !== true) store.seqReserved += 1_000_000
    const event: LedgerEvent = {
      kind: 'started',
      continuity: mutant.continuity?.(continuity) ?? continuity,
      incarnation: store.incarnation,
      fence: store.fence,
      firstSeq,
      pairs: Object.fromEntries(store.pairs),
      rows: [...store.shares.values()].map((share) => share.row),
      storeOffsetMs: this.#offset(),
      bootedAtStoreMs: store.bootedAtMs,
    }
    // After amnesia only the plane's own word counts; otherwise what the store kept will do.
    const { plane } = store
    const isFresh = continuity === 'lost' || continuity === 'first' || plane === null
    this.#others.push(event, this.#limits(isFresh ? this.#setting.readPlane() : plane))
    this.#pump()
  }

  /** The daemon is gone; its store goes on admitting. */
  crash(): void {
    this.#life += 1
    this.#isBusy = true
    this.state = createLedger(this.state.self)
  }

  /** Another daemon leads the region; this one does not know, and goes on over a store that is nobody's. */
  outlive(elsewhere: Pick<DaemonSetting, 'store' | 'publish'>): void {
    this.#setting = { ...this.#setting, ...elsewhere }
  }

  hear(record: RegionRecord): void {
    const waiting = this.#records.get(record.from)
    if (waiting !== undefined && !isNewer(record.mark, waiting.mark)) return
    this.#records.set(record.from, record)
    this.#pump()
  }

  usePlane(plane: Plane): void {
    this.#give(this.#limits(plane))
  }

  tick(): void {
    this.#give({ kind: 'tick' })
  }

  measure(): void {
    const { store } = this.#setting
    const samples = [...store.tallies].map(([id, tally]) => ({ id, ...tally, returned: 0 }))
    const noticed = [...store.noticed]
    store.noticed.clear()
    this.#give({ kind: 'measured', storeOffsetMs: this.#offset(), samples, noticed, missing: [] })
  }

  #limits(plane: Plane): LedgerEvent {
    const { revision: policyRevision, limits } = plane
    const { members, formerMembers, leastIncarnations } = plane
    const membership = { members, formerMembers, leastIncarnations }
    return { kind: 'limits', policyRevision, limits, ...membership }
  }

  /** Read over a connection that takes a moment: never more than the true difference. */
  #offset(): number {
    return this.storeMs() - this.nowMs() - this.#setting.random.between(0, 5)
  }

  #give(event: LedgerEvent): void {
    if (!this.isUp) return
    this.#others.push(event)
    this.#pump()
  }

  #pump(): void {
    while (!this.#isBusy) {
      if (this.#isUrgent) this.#publish(true)
      const other = this.#others.shift()
      if (other !== undefined) {
        this.#handle(other)
        continue
      }
      const [record] = this.#records.values()
      if (record === undefined) return
      this.#records.delete(record.from)
      this.#handle({ kind: 'record', record })
    }
  }

  #handle(event: LedgerEvent): void {
    const { mutant } = this.#setting
    const nowMs = this.nowMs()
    const before = mutant.beforeStep?.(this.state, event, nowMs) ?? this.state
    const heard = event.kind === 'record' ? mutant.onRecord?.(event.record, before) : undefined
    const given: LedgerEvent = heard === undefined ? event : { kind: 'record', record: heard }
    if (given.kind === 'limits' && given.policyRevision >= before.policyRevision) {
      this.#given = planeOf(given)
    }
    const { state, effects } = step(before, given, nowMs)
    this.state = mutant.afterStep?.(state, given, nowMs) ?? state
    if (mutant.tellsFirst === true && state.pending !== null) {
      this.#setting.publish(buildRecord({ ...this.state, pending: null }, [], nowMs).record)
    }
    this.#carryOut(effects, 0)
  }

  #carryOut(effects: readonly LedgerEffect[], place: number): void {
    const effect = effects[place]
    if (effect === undefined) {
      this.#finish()
      return
    }
    if (effect.kind === 'publish') {
      this.#publish(effect.urgent)
      this.#carryOut(effects, place + 1)
      return
    }
    this.#isBusy = true
    this.#write(effect, () => this.#carryOut(effects, place + 1))
  }

  /** All effects of a step are confirmed: the ledger hears of its shares, or the next event may come. */
  #finish(): void {
    this.#isBusy = false
    const outcomes = this.#outcomes
    this.#outcomes = null
    if (outcomes !== null) this.#handle({ kind: 'shares-written', outcomes })
    else this.#settle()
  }

  /** Everything asked for is confirmed: a region that started may serve, and go on to what waits. */
  #settle(): void {
    const { store } = this.#setting
    if (this.state.incarnation > 0 && this.state.limits !== null) store.isServing = true
    this.#pump()
  }

  #write(effect: Exclude<LedgerEffect, { kind: 'publish' }>, done: () => void): void {
    const { random, doubt } = this.#setting
    const outcomes = new Map<string, ShareOutcome>()
    const isShares = effect.kind === 'write-shares'
    if (isShares) this.#outcomes = outcomes
    const parts: (() => void)[] = isShares
      ? effect.writes.map((write) => () => outcomes.set(write.id, this.#writeShare(write)))
      : [() => this.#apply(effect)]
    const isInDoubt = random.chance(doubt)
    // The last parts of a write in doubt may or may not reach the store.
    const applied = isInDoubt ? random.whole(0, parts.length) : parts.length
    for (const part of parts.slice(0, applied)) this.#later(part)
    if (isInDoubt) this.#settleDoubt(effect, parts.slice(applied), done)
    else this.#later(done)
  }

  /** A new fence, and a new reading; what of the write is still on its way is refused then. */
  #settleDoubt(
    effect: Exclude<LedgerEffect, { kind: 'publish' }>,
    late: readonly (() => void)[],
    done: () => void,
  ): void {
    const { mutant, store, scheduler } = this.#setting
    if (mutant.ignoresDoubt === true) {
      const writes = effect.kind === 'write-shares' ? effect.writes : []
      this.#outcomes = new Map(writes.map(({ id }) => [id, 'written']))
      if (writes.length === 0) this.#outcomes = null
      this.#later(done)
      return
    }
    this.#later(() => this.start(store.isServing ? 'kept' : 'held'))
    const { fence } = store
    for (const part of late) {
      scheduler.after(this.#lateness.between(5, 200), () => {
        if (store.admitsWrite(fence, mutant.skipsFence !== true)) part()
      })
    }
  }

  #writeShare(write: ShareWrite): ShareOutcome {
    const { store, mutant } = this.#setting
    const offset = this.storeMs() - this.nowMs()
    const outcome = store.writeShare(write, this.storeMs(), (ms) => ms + offset)
    return mutant.onOutcome?.(outcome) ?? outcome
  }

  #apply(effect: Extract<LedgerEffect, { kind: 'write-pairs' | 'write-homes' }>): void {
    const { store, mutant } = this.#setting
    if (effect.kind === 'write-homes') {
      const { homes, recovering } = effect
      store.writeHomes(homes, { recovering, plane: this.#given }, this.storeMs())
      return
    }
    if (mutant.losesPairs === true) return
    for (const [peer, pair] of Object.entries(effect.pairs)) store.pairs.set(peer, pair)
  }

  /** A few milliseconds from now at the latest, in the order asked for, unless the daemon crashed by then. */
  #later(run: () => void): void {
    const life = this.#life
    const { scheduler, random } = this.#setting
    this.#dueMs = Math.max(this.#dueMs, scheduler.nowMs) + random.between(0, 3)
    scheduler.after(this.#dueMs - scheduler.nowMs, () => {
      if (this.#life === life) run()
    })
  }
  /** Ticks publish at once; urgent records keep their distance from the last. */
  #publish(isUrgent: boolean): void {
    const { scheduler, publish, mutant } = this.#setting
    const waitMs = isUrgent ? this.#sentMs + URGENT_SPACING_MS - scheduler.nowMs : 0
    if (waitMs > 0) {
      if (!this.#isUrgent) this.#wake(waitMs)
      this.#isUrgent = true
      return
    }
    this.#isUrgent = false
    this.#sentMs = scheduler.nowMs
    const { state, record } = buildRecord(this.state, [], this.nowMs())
    this.state = state
    const rows = mutant.tellsOldRows === true ? this.#told : record.rows
    this.#told = record.rows
    publish(mutant.onSend?.(record, state) ?? { ...record, rows })
  }

  #wake(afterMs: number): void {
    const life = this.#life
    this.#setting.scheduler.after(afterMs, () => {
      if (this.#life === life) this.#pump()
    })
  }
}

function planeOf(event: Extract<LedgerEvent, { kind: 'limits' }>): Plane {
  const { kind: _kind, policyRevision: revision, ...plane } = event
  return { revision, ...plane }
}
