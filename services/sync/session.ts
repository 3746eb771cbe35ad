/**
 * One stretch of leading a region over one connection to its Redis: a strictly sequential actor.
 *
 * One event is handled at a time, and each of its effects is confirmed before the next begins. The first write
 * that fails, or a lapsed lease, ends the session: what Redis holds is then in doubt, and nothing is published
 * until the next session has taken a new fence and read again.
 *
 * Sending is one synchronous turn: the record is built of the state, the lease is checked, the record is handed
 * to the bus. So a record never tells of anything that is not durable.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { unreachable } from '../../shared/core/assert.ts'
import { CLOCK_SKEW_MAX_MS, TICK_MS } from '../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../shared/core/ledger/record.ts'
import { step } from '../../shared/core/ledger/step.ts'
import type { LedgerEffect, LedgerEvent, RegionRecord } from '../../shared/core/ledger/types.ts'
import type { CountBus, RecordBus, RegionStore } from '../../shared/core/ports.ts'
import { QuotaError } from '../../shared/errors.ts'
import type { Clock } from '../../shared/runtime/clock.ts'
import type { Logger } from '../../shared/runtime/logger.ts'
import {
  fieldReader,
  type TraceFields,
  type Tracer,
  traced,
} from '../../shared/runtime/tracing/tracer.ts'
import { ClockWatch } from './clock-watch.ts'
import type { HeardTokens, Inbox } from './inbox.ts'
import { type Leadership, RENEW_INTERVAL_MS } from './leadership.ts'
import type { SyncMetrics } from './metrics.ts'
import { countMoves, showLedger } from './observe.ts'
import { ledgerLimits, type Plane } from './plane.ts'
import { measureDueMs, type RegionMemory, urgentSpacingMs } from './region-memory.ts'
import { nextExpiryMs, regionPolicies } from './region-policies.ts'
import type { StockAnswer } from './stock-book.ts'

/** Sequence numbers are reserved this far ahead, so that one durable write serves many records. */
export const SEQ_RESERVE = 1_000

/** A new reservation is made when fewer are left: some seconds' worth of urgent records. */
const SEQ_LEFT_MIN = 100

export interface SessionDeps {
  readonly bus: RecordBus
  readonly leadership: Leadership
  readonly countBus: CountBus
  readonly inbox: Inbox
  /** Called when admin is to be asked for tokens of long windows. */
  readonly onStockWanted: () => void
  /** Called when there is something new to tell of which revision is applied. */
  readonly onRollout: () => void
  readonly memory: RegionMemory
  readonly clock: Clock
  readonly metrics: SyncMetrics
  readonly log: Logger
  readonly tracer?: Tracer | undefined
}

export class Session {
  readonly #deps: SessionDeps
  readonly #store: RegionStore
  /** After Redis was read. */
  readonly #beganMs: number
  #seqReserved: number
  #renewDueMs = 0
  #tickDueMs = 0
  /** By Redis TIME: when an override or an emergency action that was written ends. */
  #expiryDueMs = Number.POSITIVE_INFINITY
  #measureDueMs = 0
  #measuredMs = 0
  #sentMs = Number.NEGATIVE_INFINITY
  #isUrgent = false
  readonly #clockWatch = new ClockWatch(CLOCK_SKEW_MAX_MS)

  /** `store` is open under a fence of this process's own; sequence numbers below `seqReserved` may be used. */
  constructor(deps: SessionDeps, store: RegionStore, seqReserved: number) {
    this.#deps = deps
    this.#beganMs = deps.clock.monotonicMs()
    this.#store = store
    this.#seqReserved = seqReserved
  }

  /**
   * Does the one thing that is most due and returns 0, or returns how long nothing is due.
   *
   * Rejects when the session is over: the store failed, or the lease lapsed or was refused.
   */
  async stepOnce(): Promise<number> {
    const nowMs = this.#deps.clock.monotonicMs()
    if (nowMs >= this.#renewDueMs) await this.#renew()
    else if (nowMs >= this.#expiryDueAtMs()) await this.usePlane(this.#deps.memory.plane)
    else if (nowMs >= this.#tickDueMs) await this.#traced('sync tick', () => this.#tick())
    else if (nowMs >= this.#measureDueMs) await this.#measure()
    else if (this.#isUrgent && nowMs >= this.#urgentDueMs()) await this.send()
    else if (nowMs >= this.#deps.memory.counts.dueMs) await this.#exchangeCounts()
    else if (nowMs >= this.#deps.memory.rollout.dueMs) await this.#lookAtEnforcers(nowMs)
    else if (!this.#deps.inbox.isEmpty) await this.#takeArrival()
    else return this.#nextDueMs() - nowMs
    return 0
  }

  /** Hands one event to the ledger and carries out all that follows from it. */
  async handle(event: LedgerEvent): Promise<void> {
    this.#requireLease()
    const { memory, clock, metrics } = this.#deps
    const startedMs = clock.monotonicMs()
    const before = memory.ledger
    const { state, effects } = step(before, event, startedMs)
    memory.ledger = state
    countMoves(metrics, before, state, effects)
    for (const effect of effects) await this.#carryOut(effect)
    metrics.stepSeconds.observe({ event: event.kind }, (clock.monotonicMs() - startedMs) / 1_000)
  }

  /** Makes `plane` the region's: in the ledger first, then in Redis, with whatever parts the ledger gives. */
  async usePlane(plane: Plane): Promise<void> {
    const { memory } = this.#deps
    memory.plane = plane
    memory.writtenPlane = null
    const inForce = memory.renewInForce(this.#storeMs())
    memory.stock.usePlane(plane)
    memory.counts.usePlane(plane)
    memory.overAdmission.beginAnew()
    const { revision: policyRevision, members, formerMembers, leastIncarnations } = plane
    const membership = { members, formerMembers, leastIncarnations }
    const limits = ledgerLimits(inForce.plane)
    await this.handle({ kind: 'limits', policyRevision, limits, ...membership })
    if (memory.writtenPlane !== plane) await this.#writePolicies()
    // A new limit may have long windows that are not open yet.
    this.#deps.onStockWanted()
    memory.freshSinceMs = null
    if (memory.isServing) return
    await this.#store.serve()
    memory.isServing = true
  }

  /** Publishes a record now; there is nothing to say before the region's limits are known. */
  async send(): Promise<void> {
    const { memory, clock, bus } = this.#deps
    this.#isUrgent = false
    if (memory.ledger.limits === null) return
    if (this.#seqReserved - memory.ledger.nextSeq < SEQ_LEFT_MIN) {
      const upTo = memory.ledger.nextSeq + SEQ_RESERVE
      await this.#store.reserveSeq(upTo)
      this.#seqReserved = upTo
    }
    this.#requireLease()
    const nowMs = clock.monotonicMs()
    const { self, incarnation, fence, nextSeq: seq } = memory.ledger
    const since = bus.sinceFor(self, { incarnation, fence, seq })
    const usage = memory.usage.take(memory.ledger, since.usage)
    const { state, record } = buildRecord(memory.ledger, usage, nowMs)
    memory.ledger = state
    memory.ownRecord = record
    bus.publish(record, since)
    this.#sentMs = nowMs
  }

  /** Spans of the Redis calls in `work` belong to it. */
  #traced(name: string, work: () => Promise<void>, trace?: TraceFields): Promise<void> {
    return traced(this.#deps.tracer, { name, kind: 'internal', from: fieldReader(trace) }, work)
  }

  async #renew(): Promise<void> {
    const claim = await this.#deps.leadership.claim(this.#store)
    this.#renewDueMs = this.#deps.clock.monotonicMs() + RENEW_INTERVAL_MS
    if (claim === 'continued') return
    throw new QuotaError('QUOTA_FENCED', 'another daemon may have led this region since')
  }

  /** Between parts of one long step: others have their turn, and the lease does not lapse meanwhile. */
  async #pause(): Promise<void> {
    await turn()
    this.#requireLease()
    if (this.#deps.clock.monotonicMs() >= this.#renewDueMs) await this.#renew()
  }

  async #tick(): Promise<void> {
    this.#tickDueMs = this.#deps.clock.monotonicMs() + TICK_MS
    await this.handle({ kind: 'tick' })
    await this.send()
    const { memory, clock, metrics } = this.#deps
    const nowMs = clock.monotonicMs()
    memory.usage.forgetOld(memory.ledger, nowMs)
    memory.stock.forgetOld(nowMs + memory.ledger.storeOffsetMs, nowMs)
    showLedger(metrics, memory, clock.monotonicMs())
  }

  async #measure(): Promise<void> {
    const { memory, clock } = this.#deps
    const { usage, corrupt, ...reading } = await this.#store.collect()
    if (corrupt.length > 0) this.#tellOfCorrupt(corrupt.length)
    this.#watchStoreClock(reading.storeOffsetMs)
    const shared = memory.counts.notice(reading.noticed)
    const noticed = memory.stock.notice(shared, clock.monotonicMs())
    if (noticed.length < shared.length) this.#deps.onStockWanted()
    await this.handle({ kind: 'measured', ...reading, noticed })
    memory.usage.countOwn(memory.ledger, usage, clock.monotonicMs())
    this.#measuredMs = clock.monotonicMs()
    this.#dateMeasure()
  }

  /** They are written again at once; whoever else writes into this Redis, or its memory, needs a human. */
  #tellOfCorrupt(counters: number): void {
    const { log, metrics } = this.#deps
    metrics.corruptShares.inc(counters)
    log.error({ counters }, 'shares in redis are corrupt and are written again')
  }

  /** What a record says may bring the next reading forward, or put it off a little. */
  #dateMeasure(): void {
    const { memory, clock } = this.#deps
    const at = { measuredMs: this.#measuredMs, nowMs: clock.monotonicMs() }
    this.#measureDueMs = measureDueMs(memory.ledger, at)
  }

  async #takeArrival(): Promise<void> {
    const { inbox, memory } = this.#deps
    const arrival = inbox.take()
    if (arrival === null) return
    switch (arrival.kind) {
      case 'record':
        await this.#takeRecord(arrival.record)
        break
      case 'plane':
        if (memory.isVoidUnder(arrival.plane)) {
          memory.forgetLedger()
          throw new QuotaError('QUOTA_FENCED', 'this region was removed on an operator’s word')
        }
        if (memory.accepts(arrival.plane)) {
          await this.#traced('apply policies', () => this.usePlane(arrival.plane), arrival.trace)
        }
        break
      case 'question':
        this.#isUrgent = true
        break
      case 'tokens':
        await this.#useTokens(arrival)
        break
      case 'counts':
        memory.counts.hear(arrival.report, memory.ledger, this.#deps.clock.monotonicMs())
        break
      case 'stock':
        await this.#takeStock(arrival.answer)
        break
      default:
        unreachable(arrival)
    }
  }

  /**
   * What was asked for in this session is later than all that Redis has, whatever the clock of Postgres says; of what was
   * asked for before, another daemon may have led meanwhile and have heard of something later.
   */
  async #useTokens({ tokens, askedAtMs }: HeardTokens): Promise<void> {
    this.#requireLease()
    const { memory } = this.#deps
    const storedMs = memory.storedTokensAsOfMs
    if (askedAtMs < this.#beganMs && tokens.asOfMs <= storedMs) return
    const later = { ...tokens, asOfMs: Math.max(tokens.asOfMs, storedMs + 1) }
    // Remembered first: where writing fails, the next session finds that Redis has an earlier reading.
    memory.checkTokens = later
    await this.#store.writeCheckTokens(later)
    memory.storedTokensAsOfMs = later.asOfMs
  }

  async #exchangeCounts(): Promise<void> {
    this.#requireLease()
    const { memory, clock, countBus } = this.#deps
    const at = { ledger: memory.ledger, nowMs: clock.monotonicMs() }
    await memory.counts.exchangeOnce(this.#store, countBus, at)
  }

  async #lookAtEnforcers(nowMs: number): Promise<void> {
    const isChanged = await this.#deps.memory.rollout.lookOnce(this.#store, nowMs)
    if (isChanged) this.#deps.onRollout()
  }

  /** What was opened is written before what was allotted in it. */
  async #takeStock(answer: StockAnswer): Promise<void> {
    this.#requireLease()
    const { memory, clock } = this.#deps
    const { adds, isOpened } = memory.stock.take(answer, clock.monotonicMs())
    if (isOpened) await this.#writePolicies()
    await this.#store.addStock(adds)
    if (memory.stock.isWanting) this.#deps.onStockWanted()
  }

  async #takeRecord(record: RegionRecord): Promise<void> {
    const { memory, clock } = this.#deps
    if (memory.isOutranked(record)) {
      memory.forgetLedger()
      throw new QuotaError(
        'QUOTA_FENCED',
        `${record.from} knows a later incarnation of this region`,
      )
    }
    memory.usage.countForeign(memory.ledger, record, clock.monotonicMs())
    await this.handle({ kind: 'record', record })
    this.#dateMeasure()
  }

  async #carryOut(effect: LedgerEffect): Promise<void> {
    this.#requireLease()
    const { memory } = this.#deps
    switch (effect.kind) {
      case 'write-pairs':
        await this.#store.writePairs(effect.pairs)
        break
      case 'write-homes':
        memory.homes = effect.homes
        await this.#writePolicies()
        break
      case 'write-shares': {
        const outcomes = await this.#store.writeShares(effect.writes)
        await this.handle({ kind: 'shares-written', outcomes })
        break
      }
      case 'publish':
        this.#isUrgent ||= effect.urgent
        break
      default:
        unreachable(effect)
    }
  }

  async #writePolicies(): Promise<void> {
    const { memory, metrics } = this.#deps
    const { plane, homes } = memory
    const recovering = memory.ledger.recoveringUntilMs !== null
    const { storeMs, plane: inForce } = memory.inForce(this.#storeMs())
    const change = {
      revision: plane.revision,
      members: plane.members,
      plane: plane.policies.values(),
      region: regionPolicies(inForce, homes, memory.stock.opened, storeMs),
      recovering,
    }
    const version = await this.#store.writePolicies(change, () => this.#pause())
    memory.writtenPlane = plane
    memory.isRecovering = recovering
    const nowMs = this.#deps.clock.monotonicMs()
    memory.rollout.noteWritten(plane.revision, { storeMs: this.#storeMs(), nowMs })
    this.#deps.onRollout()
    this.#expiryDueMs = nextExpiryMs(plane, storeMs)
    metrics.policyVersion.set(version)
  }

  /** The clock that overrides expire by, as this process last read it. */
  #storeMs(): number {
    const { memory, clock } = this.#deps
    return clock.monotonicMs() + memory.ledger.storeOffsetMs
  }

  /** Windows and deadlines hang on both clocks; each reading places them anew, so a jump is only said. */
  #watchStoreClock(offsetMs: number): void {
    const movedMs = this.#clockWatch.watch(offsetMs)
    if (movedMs === 0) return
    const { metrics, log } = this.#deps
    metrics.clockJumps.inc()
    log.warn({ movedMs: Math.round(movedMs) }, 'the clock of Redis moved against this process')
  }

  #requireLease(): void {
    if (!this.#deps.leadership.isHeld()) {
      throw new QuotaError('QUOTA_FENCED', 'the lease on this region has lapsed')
    }
  }

  /** When `#expiryDueMs` is, by this process's clock: what ends, ends then and not with the next tick. */
  #expiryDueAtMs(): number {
    return this.#expiryDueMs - this.#deps.memory.ledger.storeOffsetMs
  }

  #urgentDueMs(): number {
    return this.#sentMs + urgentSpacingMs(this.#deps.memory.ledger)
  }

  #nextDueMs(): number {
    const urgentMs = this.#isUrgent ? this.#urgentDueMs() : Number.POSITIVE_INFINITY
    const { counts, rollout } = this.#deps.memory
    const timed = Math.min(this.#renewDueMs, this.#tickDueMs, this.#expiryDueAtMs())
    const own = Math.min(timed, this.#measureDueMs, urgentMs)
    return Math.min(own, counts.dueMs, rollout.dueMs)
  }
}
