/**
 * The sync daemon of one region: the same ledger, the same order of effects and the same starts as services/sync,
 * as a task of virtual time.
 */

import {
  LEASE_MS,
  LEASE_STORE_MS,
  RENEW_INTERVAL_MS,
} from '../../../../services/sync/leadership.ts'
import { measureIntervalMs } from '../../../../services/sync/region-memory.ts'
import { SEQ_RESERVE } from '../../../../services/sync/session.ts'
import type { CounterId } from '../../../../shared/core/descriptor.ts'
import {
  LOAN_TTL_MS,
  TICK_MS,
  URGENT_SPACING_MS,
} from '../../../../shared/core/ledger/constants.ts'
import { buildRecord } from '../../../../shared/core/ledger/record.ts'
import { step } from '../../../../shared/core/ledger/step.ts'
import type { LedgerEffect, LedgerEvent } from '../../../../shared/core/ledger/types.ts'
import type { Beginning, DaemonDeps } from './daemon-deps.ts'
import { DaemonMemory } from './daemon-memory.ts'
import type { Process, Task } from './process.ts'
import { EMPTY_PLANE } from './redis-image.ts'
import * as store from './store-writes.ts'

const RETRY_MS = 150
const STANDBY_MS = 500
const ADMIN_WAIT_MS = LOAN_TTL_MS / 2
const ADMIN_RETRY_MS = 250
const SEQ_LEFT_MIN = 100

export class Daemon {
  readonly #deps: DaemonDeps
  memory: DaemonMemory
  /** Steps that the ledger took, for those who count how much was tried. */
  steps = 0
  #requests = 0
  #leaseUntilMs = Number.NEGATIVE_INFINITY
  #ledSinceMs = 0
  #connection = 0
  #fence = 0
  #offsetMs = 0
  #seqReserved = 0
  #renewDueMs = 0
  #tickDueMs = 0
  #measureDueMs = 0
  #measuredMs = 0
  #sentMs = Number.NEGATIVE_INFINITY
  #isUrgent = false
  #isServing = false

  constructor(deps: DaemonDeps) {
    this.#deps = deps
    this.memory = new DaemonMemory(deps.region)
  }

  get process(): Process {
    return this.#deps.process
  }

  /** A new process: nothing is remembered. */
  start(): void {
    this.memory = new DaemonMemory(this.#deps.region)
    this.#leaseUntilMs = Number.NEGATIVE_INFINITY
    this.process.start(this.#run())
  }

  *#run(): Task {
    for (;;) {
      try {
        yield* this.#lead()
      } catch (err) {
        if (!(err instanceof store.StoreFailure)) throw err
      }
      yield* this.#sleepFor(RETRY_MS)
    }
  }

  *#lead(): Task {
    const { redis } = this.#deps
    this.#connection = yield* this.#call(() => redis.connection, null)
    yield* this.#takeLease()
    yield* this.#startSession()
    for (;;) yield* this.#stepOnce()
  }

  *#takeLease(): Task {
    for (;;) {
      const claim = yield* this.#claim()
      if (claim === 'continued') return
      this.memory.forgetLedger()
      if (claim === 'taken') {
        this.#ledSinceMs = this.process.nowMs()
        return
      }
      yield* this.#sleepFor(STANDBY_MS)
    }
  }

  *#claim(): Task<'refused' | 'taken' | 'continued'> {
    const { redis, holder } = this.#deps
    const sentMs = this.process.nowMs()
    const isGranted = yield* this.#call(() => store.claimLeadership(redis, holder, LEASE_STORE_MS))
    if (!isGranted) {
      this.#leaseUntilMs = Number.NEGATIVE_INFINITY
      return 'refused'
    }
    const isContinued = this.#isLeading()
    this.#leaseUntilMs = sentMs + LEASE_MS
    return isContinued ? 'continued' : 'taken'
  }

  *#startSession(): Task {
    const { memory } = this
    const { redis } = this.#deps
    this.#isServing = false
    const opened = yield* this.#call(() => store.open(redis))
    this.#fence = opened.fence
    this.#offsetMs = opened.storeUs / 1_000 - this.process.nowMs()
    const beginning = yield* this.#begin(opened)
    const firstSeq = Math.max(opened.seqReserved, memory.ledger.nextSeq)
    yield* this.#reserve(firstSeq + SEQ_RESERVE)
    const { continuity, incarnation, isFromStore, startUs } = beginning
    const own = {
      pairs: Object.fromEntries(memory.ledger.pairs),
      rows: [...memory.ledger.keys.values()].map((key) => key.row),
    }
    const { pairs, rows } = isFromStore ? opened : own
    this.#renewDueMs = this.#tickDueMs = this.#measureDueMs = 0
    yield* this.#handle({
      kind: 'started',
      continuity,
      incarnation,
      fence: this.#fence,
      firstSeq,
      pairs,
      rows,
      storeOffsetMs: this.#offsetMs,
      bootedAtStoreMs: startUs / 1_000,
    })
    if (memory.freshQuestion === 0 && memory.plane.revision > 0) yield* this.#usePlane()
  }

  *#begin(opened: store.Opened): Task<Beginning> {
    const { memory } = this
    const { redis } = this.#deps
    const isWhole = opened.scriptsLoaded && opened.incarnation > 0
    const hasLedger = memory.ledger.incarnation > 0
    if (hasLedger && !(isWhole && opened.incarnation === memory.ledger.incarnation)) {
      const { incarnation } = memory.ledger
      const recovering = memory.isRecovering
      const boot = { incarnation, levels: 'empty', recovering } as const
      const startUs = yield* this.#write(() => store.begin(redis, boot))
      return { continuity: 'held', incarnation, isFromStore: false, startUs }
    }
    const isKept = isWhole && !opened.recovering && opened.incarnation >= memory.incarnationHeard
    if (!hasLedger && !isKept) return yield* this.#beginAnew(opened)
    if (opened.plane.revision > memory.plane.revision) memory.plane = opened.plane
    const { incarnation, startUs } = opened
    return { continuity: 'kept', incarnation, isFromStore: true, startUs }
  }

  *#beginAnew(opened: store.Opened): Task<Beginning> {
    const { memory } = this
    const { redis, surroundings } = this.#deps
    const atLeast = Math.max(opened.incarnation, memory.incarnationHeard)
    const { incarnation, isFirst } = yield* this.#nextIncarnation(atLeast)
    if (!isFirst) yield* this.#keepLease(this.#ledSinceMs + LEASE_STORE_MS)
    const levels = isFirst ? 'full' : 'empty'
    const boot = { incarnation, levels, recovering: !isFirst } as const
    const startUs = yield* this.#write(() => store.begin(redis, boot))
    this.#requests++
    memory.ledger = { ...memory.ledger, incarnation: 0 }
    memory.plane = EMPTY_PLANE
    memory.isRecovering = !isFirst
    memory.freshQuestion = ++memory.asked
    surroundings.askPlane(memory.freshQuestion)
    const continuity = isFirst ? 'first' : 'lost'
    return { continuity, incarnation, isFromStore: false, startUs }
  }

  *#nextIncarnation(atLeast: number): Task<{ incarnation: number; isFirst: boolean }> {
    const { memory } = this
    const { holder, surroundings } = this.#deps
    const request = `${holder}.${this.#requests}`
    const endMs = this.process.nowMs() + ADMIN_WAIT_MS
    while (this.process.nowMs() < endMs) {
      surroundings.askIncarnation(request, atLeast)
      yield* this.#keepLease(this.process.nowMs() + ADMIN_RETRY_MS)
      const reply = memory.arrivedIncarnation
      if (reply?.request !== request) continue
      return { incarnation: reply.incarnation, isFirst: reply.isFirst && atLeast === 0 }
    }
    const incarnation = Math.max(atLeast + 1, Math.floor(surroundings.wallMs()))
    return { incarnation, isFirst: false }
  }

  *#keepLease(untilMs: number): Task {
    for (;;) {
      if ((yield* this.#claim()) !== 'continued') throw new store.StoreFailure('lease lost')
      const leftMs = untilMs - this.process.nowMs()
      if (leftMs <= 0) return
      yield* this.#sleepFor(Math.min(leftMs, RENEW_INTERVAL_MS))
    }
  }

  *#stepOnce(): Task {
    const nowMs = this.process.nowMs()
    if (nowMs >= this.#renewDueMs) yield* this.#renew()
    else if (nowMs >= this.#tickDueMs) yield* this.#tick()
    else if (nowMs >= this.#measureDueMs) yield* this.#measure()
    else if (this.#isUrgent && nowMs >= this.#sentMs + URGENT_SPACING_MS) yield* this.#send()
    else if (!(yield* this.#takeArrival())) yield* this.#sleepFor(this.#nextDueMs() - nowMs)
  }

  *#renew(): Task {
    const claim = yield* this.#claim()
    this.#renewDueMs = this.process.nowMs() + RENEW_INTERVAL_MS
    if (claim !== 'continued') throw new store.StoreFailure('another daemon may have led')
    if (this.memory.freshQuestion > 0) this.#deps.surroundings.askPlane(++this.memory.asked)
  }

  *#tick(): Task {
    this.#tickDueMs = this.process.nowMs() + TICK_MS
    yield* this.#handle({ kind: 'tick' })
    yield* this.#send()
  }

  *#measure(): Task {
    const { redis } = this.#deps
    const { storeUs, ...reading } = yield* this.#call(() => store.collect(redis))
    this.#offsetMs = storeUs / 1_000 - this.process.nowMs()
    yield* this.#handle({ kind: 'measured', ...reading, storeOffsetMs: this.#offsetMs })
    this.#measuredMs = this.process.nowMs()
    this.#dateMeasure()
  }

  #dateMeasure(): void {
    const intervalMs = measureIntervalMs(this.memory.ledger, this.process.nowMs())
    this.#measureDueMs = this.#measuredMs + intervalMs
  }

  *#takeArrival(): Task<boolean> {
    const { memory } = this
    const plane = memory.arrivedPlane
    if (plane !== null) {
      memory.arrivedPlane = null
      if (memory.accepts(plane)) {
        memory.plane = plane
        memory.freshQuestion = 0
        yield* this.#usePlane()
      }
      return true
    }
    const [record] = memory.records.values()
    if (record === undefined) return false
    memory.records.delete(record.from)
    if (memory.isOutranked(record)) {
      memory.forgetLedger()
      throw new store.StoreFailure('outranked')
    }
    yield* this.#handle({ kind: 'record', record })
    this.#dateMeasure()
    return true
  }

  *#usePlane(): Task {
    const { redis } = this.#deps
    const { revision: policyRevision, members, limits } = this.memory.plane
    yield* this.#handle({ kind: 'limits', policyRevision, members, limits })
    yield* this.#writePolicies()
    if (this.#isServing) return
    yield* this.#write(() => redis.loadScripts(), null)
    this.#isServing = true
  }

  *#handle(event: LedgerEvent): Task {
    this.#requireLease()
    const { state, effects } = step(this.memory.ledger, event, this.process.nowMs())
    this.memory.ledger = state
    this.steps++
    for (const effect of effects) yield* this.#carryOut(effect)
  }

  *#carryOut(effect: LedgerEffect): Task {
    this.#requireLease()
    const { redis } = this.#deps
    switch (effect.kind) {
      case 'write-pairs':
        yield* this.#write(() => store.writePairs(redis, effect.pairs))
        break
      case 'write-homes':
        this.memory.homes = effect.homes
        this.memory.isRecovering = effect.recovering
        yield* this.#writePolicies()
        break
      case 'write-shares': {
        const offsetMs = this.#offsetMs
        const write = () => store.writeShares(redis, effect.writes, offsetMs)
        const outcomes = yield* this.#write(
          write,
          effect.writes.map(({ id }) => id),
        )
        yield* this.#handle({ kind: 'shares-written', outcomes })
        break
      }
      case 'publish':
        this.#isUrgent ||= effect.urgent
        break
    }
  }

  *#writePolicies(): Task {
    const { redis } = this.#deps
    const { plane, homes, isRecovering: recovering } = this.memory
    yield* this.#write(() => store.writePolicies(redis, { plane, homes, recovering }), null)
  }

  /** Builds and publishes in one turn: a record never tells of anything that is not durable. */
  *#send(): Task {
    const { memory } = this
    const { surroundings } = this.#deps
    if (this.#seqReserved - memory.ledger.nextSeq < SEQ_LEFT_MIN) {
      yield* this.#reserve(memory.ledger.nextSeq + SEQ_RESERVE)
    }
    this.#requireLease()
    const nowMs = this.process.nowMs()
    const { state, record } = buildRecord(memory.ledger, surroundings.usage(), nowMs)
    memory.ledger = state
    surroundings.publish(record)
    this.#sentMs = nowMs
    this.#isUrgent = false
  }

  *#reserve(upTo: number): Task {
    const { redis } = this.#deps
    yield* this.#write(() => {
      redis.image.seqReserved = upTo
    })
    this.#seqReserved = upTo
  }

  /** One script under this session's fence. `ids` are the keys whose shares it changes, null is all. */
  *#write<Result>(run: () => Result, ids: readonly CounterId[] | null = []): Task<Result> {
    const { redis, surroundings } = this.#deps
    const fence = this.#fence
    return yield* this.#call(() => {
      store.requireFence(redis, fence)
      const result = run()
      if (ids === null || ids.length > 0) surroundings.onStoreChange(ids)
      return result
    })
  }

  /** One round trip to Redis over this session's connection. */
  *#call<Result>(run: () => Result, connection: number | null = this.#connection): Task<Result> {
    const replies: Result[] = []
    yield { kind: 'store', connection, run: () => void replies.push(run()) }
    const [reply] = replies
    // The driver throws where there is no reply, so the cast only restores what pushing lost.
    return reply as Result
  }

  *#sleepFor(ms: number): Task {
    yield { kind: 'sleep', untilMs: this.process.nowMs() + ms }
  }

  #isLeading(): boolean {
    return this.process.nowMs() < this.#leaseUntilMs
  }

  #requireLease(): void {
    if (!this.#isLeading()) throw new store.StoreFailure('the lease has lapsed')
  }

  #nextDueMs(): number {
    const urgentMs = this.#isUrgent ? this.#sentMs + URGENT_SPACING_MS : Number.POSITIVE_INFINITY
    return Math.min(this.#renewDueMs, this.#tickDueMs, this.#measureDueMs, urgentMs)
  }
}
